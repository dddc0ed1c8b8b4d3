#include "train/stop_line.h"

#include <ATen/Functions.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <limits>
#include <sstream>

namespace rtf::train {
namespace {

std::string largest_gradient(const Optimizer& optimizer) {
  double largest = -1;
  std::string parameter;
  for (const auto& [name, tensor] : optimizer.trained()) {
    if (!tensor.grad().defined()) continue;
    const double value = tensor.grad().abs().max().item<double>();
    if (std::isnan(largest) || !(std::isnan(value) || value > largest)) continue;
    largest = value;
    parameter = name;
  }
  return parameter.empty() ? "none yet" : number_text(largest) + " in " + parameter;
}

// Nothing where the layers report no poles.
std::string smallest_denominator(const nn::SequenceModel& model) {
  double smallest = std::numeric_limits<double>::infinity();
  std::size_t layer = 0;
  const std::vector<nn::PoleReport> reports = model->poles();
  if (reports.empty()) return "";
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const double value = reports[i].min_abs_denominator;
    if (std::isnan(smallest) || !(std::isnan(value) || value < smallest)) continue;
    smallest = value;
    layer = i;
  }
  return "; smallest |A| " + number_text(smallest) + " in blocks." + std::to_string(layer) + ".layer";
}

}  // namespace

std::string without_operation(std::string message) {
  if (message.starts_with("[rtf::")) message.erase(0, message.find("] ") + 2);
  return message;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  std::ostringstream text;
  text << value;
  return text.str();
}

std::string stop_line(int64_t step, const std::string& why, const Optimizer* optimizer,
                      const nn::SequenceModel& model) {
  return "stopped at step " + std::to_string(step) + ": " + why +
         (optimizer ? "; largest gradient " + largest_gradient(*optimizer) : "") + smallest_denominator(model);
}

}  // namespace rtf::train
