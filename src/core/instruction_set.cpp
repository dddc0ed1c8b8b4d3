#include "rtf/instruction_set.h"

#include <atomic>
#include <cstdlib>
#include <string>

#include "rtf/error.h"

namespace rtf {

const char* name(InstructionSet set) {
  switch (set) {
    case InstructionSet::portable:
      return "portable";
    case InstructionSet::v2:
      return "v2";
    case InstructionSet::v3:
      return "v3";
    case InstructionSet::v4:
      return "v4";
  }
  return "?";
}

std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> sets{InstructionSet::portable};
// Clang before 18 does not know the levels by name: what it builds is portable.
#if defined(__x86_64__) && (!defined(__clang__) || __clang_major__ >= 18)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v2")) sets.push_back(InstructionSet::v2);
  if (__builtin_cpu_supports("x86-64-v3")) sets.push_back(InstructionSet::v3);
  if (__builtin_cpu_supports("x86-64-v4")) sets.push_back(InstructionSet::v4);
#endif
  return sets;
}

namespace {

InstructionSet checked(InstructionSet set) {
  for (const InstructionSet available : instruction_sets())
    if (available == set) return set;
  throw Error(ErrorCode::unsupported, "set_instruction_set", std::string("this processor lacks ") + name(set));
}

InstructionSet initial() {
  const char* wanted = std::getenv("RTF_INSTRUCTION_SET");
  if (wanted == nullptr || *wanted == '\0') return instruction_sets().back();
  for (const InstructionSet set :
       {InstructionSet::portable, InstructionSet::v2, InstructionSet::v3, InstructionSet::v4})
    if (std::string(wanted) == name(set)) return checked(set);
  throw Error(ErrorCode::argument, "instruction_set",
              "RTF_INSTRUCTION_SET is '" + std::string(wanted) + "'; it may be portable, v2, v3 or v4");
}

std::atomic<InstructionSet>& current() {
  static std::atomic<InstructionSet> set{initial()};
  return set;
}

}  // namespace

InstructionSet instruction_set() { return current(); }
void set_instruction_set(InstructionSet set) { current() = checked(set); }

}  // namespace rtf
