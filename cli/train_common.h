// What the subcommands of rtf-train share. Free of fmt, which torch's headers clash with.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "training.h"

namespace rtf::cli {

void add_train(CLI::App& app);
void add_eval(CLI::App& app);
void add_export(CLI::App& app);
void add_report(CLI::App& app);
void add_runs(CLI::App& app);
void add_sweep(CLI::App& app);
// Words of `rtf bench`.
void add_bench_lra(CLI::App& command);
void add_bench_table(CLI::App& command);

// --device, of commands that measure: cuda unless said otherwise.
void add_device(CLI::App& command, std::string& device);

// one(0) to one(count - 1), with a bar on the terminal.
void each_with_bar(std::size_t count, bool quiet, const std::function<void(std::size_t)>& one);

// Every key of a config with its type, default and meaning, on standard output.
void print_config_keys();

}  // namespace rtf::cli
