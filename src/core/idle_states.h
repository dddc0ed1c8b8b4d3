// States that take no part in the answer of a system.
#pragma once

#include "rtf/state_space.h"

namespace rtf {

// The states that the input reaches and that the output sees, as the zeros of the matrices tell: the same kernel.
StateSpace without_idle_states(const StateSpace& system);

}  // namespace rtf
