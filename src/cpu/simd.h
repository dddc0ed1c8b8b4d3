// How our SIMD files are compiled: Highway repeats the file for each instruction set, and a table of functions of each
// repetition is chosen when a plan is made. Include this before hwy/foreach_target.h.
#pragma once

#include "rtf/instruction_set.h"

// One variant a level of rtf::InstructionSet; the others of Highway would only cost compile time.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)

// Picks Table() of the namespace that was compiled for `set`.
#if defined(__x86_64__)
#define RTF_SIMD_TABLE(set, Table)                        \
  ((set) == ::rtf::InstructionSet::v4   ? N_AVX3::Table() \
   : (set) == ::rtf::InstructionSet::v3 ? N_AVX2::Table() \
   : (set) == ::rtf::InstructionSet::v2 ? N_SSE4::Table() \
                                        : HWY_STATIC_DISPATCH(Table)())
#else
#define RTF_SIMD_TABLE(set, Table) HWY_STATIC_DISPATCH(Table)()
#endif
