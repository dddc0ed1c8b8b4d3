#include "entry.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <new>
#include <stdexcept>

#include "core/edit_distance.h"
#include "core/printable.h"
#include "rtf/version.h"

namespace rtf::cli {
namespace {

constexpr int failure = 2;

bool is_command(const CLI::App& app, const std::string& word) {
  const auto commands = app.get_subcommands(nullptr);
  return std::any_of(commands.begin(), commands.end(), [&](const CLI::App* c) { return c->get_name() == word; });
}

std::string unknown_command(const CLI::App& app, const std::string& word) {
  std::string names, nearest;
  std::size_t best = 3;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    names += (names.empty() ? "" : ", ") + command->get_name();
    if (const std::size_t edits = edit_distance(word, command->get_name()); edits < best) {
      best = edits;
      nearest = command->get_name();
    }
  }
  return fmt::format("unknown command '{}'; {}", word,
                     nearest.empty() ? "expected one of " + names : fmt::format("did you mean '{}'?", nearest));
}

// One line whatever the message holds. The operation in front of library messages says nothing new to a shell user.
int report(const CLI::App& app, std::string message) {
  if (message.starts_with("[rtf::")) message.erase(0, message.find("] ") + 2);
  for (char& c : message)
    if (c == '\n' || c == '\t') c = ' ';
  const auto commands = app.get_subcommands();
  fmt::print(stderr, "rtf{}: {}\n", commands.empty() ? "" : " " + commands.back()->get_name(),
             printable(message, message.size()));
  return failure;
}

int finish(const CLI::App& app) {
  std::cout.flush();
  if (!std::cout || std::fflush(stdout) != 0 || std::ferror(stdout)) {
    return report(app, "cannot write to standard output");
  }
  return 0;
}

}  // namespace

void add_program_flags(CLI::App& app, const std::string& footer) {
  app.set_help_flag("-h,--help", "print this help");
  app.set_version_flag("--version", fmt::format("rtf {}", version), "print the version");
  app.require_subcommand(0, 1);
  app.footer(footer);
}

void add_command_flags(CLI::App& command, const std::string& example) {
  command.set_help_flag("-h,--help", "print this help");
  command.set_version_flag("--version", fmt::format("rtf {}", version), "print the version");
  command.footer("Example:\n" + example);
}

int run_program(CLI::App& app, int argc, char** argv) {
  // A file past the limit of the shell is then an error of write(), which says so and leaves nothing behind.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const std::string word = argc > 1 ? argv[1] : "--help";
    if (argc == 1) {
      std::cout << app.help();
    } else if (!word.starts_with("-") && !is_command(app, word)) {
      return report(app, unknown_command(app, word));
    } else {
      app.parse(argc, argv);
    }
    return finish(app);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return report(app, error.what());
    app.exit(error, std::cout, std::cerr);  // --help and --version
    return finish(app);
  } catch (const std::bad_alloc&) {
    return report(app, "not enough memory");
  } catch (const std::length_error&) {
    return report(app, "not enough memory");
  } catch (const std::exception& error) {
    return report(app, error.what());
  }
}

}  // namespace rtf::cli
