// The JSON of forms other than tf.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"
#include "rtf/filter_file.h"

namespace rtf {

AnyFilter read_form(const nlohmann::json& file, const std::string& path);

std::string form_text(const std::vector<System>& systems);  // of one form, not tf
std::string form_text(const StateSpace& system);
std::string form_text(const MimoTransferFunction& tf);

}  // namespace rtf
