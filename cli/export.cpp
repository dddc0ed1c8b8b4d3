// rtf export: a run's weights as one model file, with a report of how each layer will run.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "core/file_errors.h"
#include "core/option_names.h"
#include "radius_text.h"
#include "rtf/error.h"
#include "train/export_run.h"
#include "train/table.h"
#include "train_common.h"

namespace rtf::cli {
namespace {

struct ExportOptions {
  std::string run, output, checkpoint = "best", precision = "f32", weights, realization = "auto", stabilize;
  bool quiet = false;
};

std::string error_text(double error) {
  char written[32];
  std::snprintf(written, sizeof written, "%.2e", error);
  return written;
}

RealizeOptions realize_options(const ExportOptions& options) {
  RealizeOptions realize;
  realize.precision = option_value("export", "precision", precisions, options.precision);
  realize.realization = option_value("export", "realization", realization_choices, options.realization);
  if (!options.stabilize.empty())
    realize.stabilize = option_value("export", "stabilize", layer_stabilize_methods, options.stabilize);
  return realize;
}

// None: those of the precision.
std::optional<DataType> narrow_weights(const ExportOptions& options) {
  if (!options.weights.empty() && options.precision != "f32")
    throw Error(ErrorCode::argument, "export",
                "--weights " + options.weights + " goes with --precision f32; f64 keeps its weights in f64");
  if (options.weights.empty() || options.weights == "f32") return {};
  return option_value("export", "weights", weight_types, options.weights);
}

// What was given up, in the order in which it was tried: "companion f32 2.1e-03", and by its drift where that was it.
std::string refused_trials(const Realized& layer) {
  std::string list;
  for (const RealizationTrial& trial : layer.trials) {
    if (trial.name == realization_name(layer.layer.realization) && trial.precision == layer.layer.precision) continue;
    list += (list.empty() ? "" : ", ") + trial.name + " " + name(trial.precision) + " " +
            (trial.drift ? "drift " + error_text(*trial.drift) : error_text(trial.error));
  }
  return list;
}

void print(const train::ExportReport& report, const ExportOptions& options) {
  const Architecture& a = report.architecture;
  std::printf("%s, step %lld\n", report.checkpoint.c_str(), static_cast<long long>(report.step));
  std::vector<std::string> header = {"layer", "pole radius", "realization", "precision", "error", "drift"};
  if (!options.stabilize.empty()) header.push_back("moved by");
  header.push_back("refused");
  train::Table table(header);
  for (std::size_t i = 0; i < report.layers.size(); ++i) {
    const Realized& layer = report.layers[i];
    std::string number = std::to_string(a.bidirectional ? i / 2 : i);
    if (a.bidirectional) number += i % 2 == 0 ? " forward" : " backward";
    std::vector<std::string> cells = {number,
                                      radius_text(layer.layer.pole_radius),
                                      realization_name(layer.layer.realization),
                                      name(layer.layer.precision),
                                      error_text(layer.layer.error),
                                      layer.drift ? error_text(*layer.drift) : "-"};
    if (!options.stabilize.empty()) cells.push_back(layer.stabilize_error ? error_text(*layer.stabilize_error) : "-");
    cells.push_back(refused_trials(layer));
    table.row(std::move(cells));
  }
  if (!report.layers.empty()) std::fputs(table.text().c_str(), stdout);
  std::printf("answers are off by %s of the largest, against the model in float64\n",
              error_text(report.answer_error).c_str());
  const std::string weights = narrow_weights(options) ? ", weights in " + options.weights : "";
  std::printf("%s: %s%s, %zu layers of %zu channels, %.1f kB%s\n", options.output.c_str(), options.precision.c_str(),
              weights.c_str(), a.layers, a.channels,
              static_cast<double>(std::filesystem::file_size(options.output)) / 1e3,
              a.bidirectional ? "; bidirectional: runs on blocks, whole sequences, and cannot be streamed" : "");
}

void run(const ExportOptions& options) {
  try {
    const train::ExportReport report = train::export_run(options.run, options.checkpoint, options.output,
                                                         realize_options(options), narrow_weights(options));
    if (!options.quiet) print(report, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unstable || !options.stabilize.empty()) throw;
    throw Error(error.code(), "export",
                without_operation(error) +
                    ": --stabilize refit keeps its kernel as well as a stable one can, --stabilize reflect its "
                    "magnitude response");
  }
}

}  // namespace

void add_export(CLI::App& app) {
  CLI::App& command = add_training_command(
      app, "export",
      "  rtf export runs/copying -o model.safetensors\n"
      "  rtf export runs/copying/checkpoints/latest.safetensors -o model.safetensors --precision f64\n"
      "The report has for each layer its outermost pole, the recurrence it will run as and that one's error: the\n"
      "largest difference from the layer's kernel in double precision, over the kernel's largest value. Drift is how\n"
      "far one in float32 is off when it runs on, from that in double. Under \"refused\" stand cheaper ones whose\n"
      "error or drift was too large. The line below it has the error of the whole model's\n"
      "answers to a random input, narrow weights included. `rtf stream` runs the file.");
  auto options = std::make_shared<ExportOptions>();
  command.add_option("RUN", options->run, "folder of a run, or a checkpoint")->required()->type_name("");
  command.add_option("-o,--output", options->output, "model file to write, safetensors")->required()->type_name("FILE");
  command
      .add_option("--checkpoint", options->checkpoint, "weights of a folder: best (the default), latest or previous")
      ->check(CLI::IsMember({"best", "latest", "previous"}))
      ->type_name("NAME");
  command.add_option("--precision", options->precision, "of weights and arithmetic: f32 (the default) or f64")
      ->check(CLI::IsMember({"f32", "f64"}))
      ->type_name("TYPE");
  command
      .add_option(
          "--weights", options->weights,
          "of matrices and embeddings: f32 (the default), bf16 or int8, with a scale for each row; a step of one "
          "stream is bound by reading them")
      ->check(CLI::IsMember({"f32", "bf16", "int8"}))
      ->type_name("TYPE");
  command
      .add_option(
          "--realization", options->realization,
          "of every layer: auto, the cheapest whose error is within 1e-5 in f32 and 1e-10 in f64 and which does "
          "not drift by 1e-3 (the default), companion, sos or modal")
      ->check(CLI::IsMember({"auto", "companion", "sos", "modal"}))
      ->type_name("FORM");
  command
      .add_option("--stabilize", options->stabilize,
                  "layers with poles on or outside the circle, otherwise refused: refit or reflect; the report says "
                  "how far their kernels moved")
      ->check(CLI::IsMember({"refit", "reflect"}))
      ->type_name("METHOD");
  command.add_flag("-q,--quiet", options->quiet, "print no report");
  command.callback([options] { run(*options); });
}

}  // namespace rtf::cli
