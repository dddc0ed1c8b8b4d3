// The subcommands that need LibTorch: the program rtf-train serves them, rtf starts it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace rtf::cli {

struct TrainingCommand {
  const char *name, *description;
};
inline constexpr TrainingCommand training_commands[] = {
    {"train", "Train a model as a config file says"},
    {"eval", "Evaluate the weights of a run"},
    {"export", "Write the model of a run as a file for `rtf stream` and the runtime"},
    {"runs", "List the runs below a folder"},
    {"report", "Tables and learning curves of runs"},
    {"sweep", "Train a config over lists of values, and compare"},
};
// One word of it needs LibTorch: `rtf bench table`.
inline constexpr const char* bench_description =
    "Measure a model file step by step, or print the paper's tables beside ours";
inline constexpr const char* bench_table_description = "A table of the paper, measured here";

// Lists them in rtf's help. One that is called replaces this process by rtf-train with the same arguments: the one
// beside this program, else on PATH.
void add_training_commands(CLI::App& app, char** argv);
// Makes `command` such a one.
void serve_by_training(CLI::App& command, char** argv);

// The real one, in rtf-train.
CLI::App& add_training_command(CLI::App& app, const std::string& name, const std::string& example);

}  // namespace rtf::cli
