// Learning curves of the runs of one task, as a picture.
#pragma once

#include <span>
#include <string>

#include "train/report.h"

namespace rtf::cli {

// SVG: loss, and the task's metric where it has one, against steps. A line a run, a colour a row of the report.
std::string learning_curves(std::span<const train::ReportRow> rows);

}  // namespace rtf::cli
