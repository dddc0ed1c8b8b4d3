// What the programs rtf and rtf-train share: one way from the command line to an exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace rtf::cli {

// The app that people see, whichever program serves it.
void add_program_flags(CLI::App& app, const std::string& footer);

// --help and --version of a subcommand, with an example.
void add_command_flags(CLI::App& command, const std::string& example);

// Parses and runs. Every failure becomes one line on standard error and exit code 2.
int run_program(CLI::App& app, int argc, char** argv);

}  // namespace rtf::cli
