// Which variant of the CPU code runs.
#pragma once

#include <vector>

namespace rtf {

enum class InstructionSet {
  portable,  // what every processor of the architecture has
  v2,        // x86-64-v2: SSE4.2
  v3,        // x86-64-v3: AVX2 and FMA
  v4,        // x86-64-v4: AVX-512
};

const char* name(InstructionSet set);

// What this processor can run, slowest first.
std::vector<InstructionSet> instruction_sets();

// The one in use: the best, or the environment's RTF_INSTRUCTION_SET, or what was set. Plans keep the one they were
// made with.
InstructionSet instruction_set();
void set_instruction_set(InstructionSet set);

}  // namespace rtf
