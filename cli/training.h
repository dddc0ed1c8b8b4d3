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
inline constexpr const char* bench_description =
    "Measure a model file step by step, the paper's tables, or the layers of its models";
// What `rtf bench` measures with LibTorch.
inline constexpr TrainingCommand bench_commands[] = {
    {"table", "A table of the paper, measured here"},
    {"lra", "One layer of each Long Range Arena model, RTF beside S4D and S4, over state sizes"},
};

// Lists them in rtf's help. One that is called replaces this process by rtf-train with the same arguments: the one
// beside this program, else on PATH.
void add_training_commands(CLI::App& app, char** argv);
// Makes `command` such a one.
void serve_by_training(CLI::App& command, char** argv);

// The real ones, in rtf-train; of `rtf bench` where `app` is that.
CLI::App& add_training_command(CLI::App& app, const std::string& name, const std::string& example);

}  // namespace rtf::cli
