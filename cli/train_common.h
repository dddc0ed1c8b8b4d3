// What the subcommands of rtf-train share. Free of fmt, which torch's headers clash with.
#pragma once

#include <CLI/CLI.hpp>

#include "training.h"

namespace rtf::cli {

void add_train(CLI::App& app);
void add_eval(CLI::App& app);
void add_export(CLI::App& app);
void add_report(CLI::App& app);
void add_runs(CLI::App& app);
void add_sweep(CLI::App& app);
void add_bench_table(CLI::App& app);

// Every key of a config with its type, default and meaning, on standard output.
void print_config_keys();

}  // namespace rtf::cli
