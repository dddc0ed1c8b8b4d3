// A layer written as one of the recurrences that the runtime has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rtf/executor.h"
#include "rtf/model_file.h"
#include "rtf/transfer_function.h"

namespace rtf {

// As "companion", "sos" or "modal", in double; nothing where it has no such form.
std::optional<Realization> in_form(const TransferFunction& tf, const std::string& form, Executor& executor);

// a0 = 1 in every section, and as many sections in every channel.
std::vector<SecondOrderSections> alike(std::vector<SecondOrderSections> channels);

// Whether all numbers are still finite.
bool round_to_float32(Realization& realization);

// Of the numbers as they are: rounding may have moved a pole out.
bool poles_inside(const Realization& realization);

}  // namespace rtf
