#include "training.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <system_error>

#include "entry.h"
#include "rtf/error.h"

namespace rtf::cli {
namespace {

constexpr const char* program = "rtf-train";

[[noreturn]] void start_program(char** argv) {
  std::error_code ignored;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::string beside = (folder / program).string();
  // How long torch's threads spin before they sleep, read when the program loads. The default costs a factor of 10 and
  // more as soon as anything else runs on the same cores; alone, this is as fast.
  ::setenv("GOMP_SPINCOUNT", "1000", /*overwrite=*/0);
  ::execv(beside.c_str(), argv);
  if (errno == ENOENT) ::execvp(program, argv);
  if (errno == ENOENT) {
    throw Error(
        ErrorCode::unsupported, "command",
        fmt::format("this rtf was built without training: there is no {} in {} nor on PATH", program, folder.string()));
  }
  throw Error(ErrorCode::io, "command",
              fmt::format("cannot start {}: {}", beside, std::generic_category().message(errno)));
}

}  // namespace

void serve_by_training(CLI::App& command, char** argv) {
  // rtf-train knows the arguments, --help among them.
  command.set_help_flag();
  command.prefix_command();
  command.callback([argv] { start_program(argv); });
}

void add_training_commands(CLI::App& app, char** argv) {
  for (const TrainingCommand& command : training_commands)
    serve_by_training(*app.add_subcommand(command.name, command.description), argv);
}

CLI::App& add_training_command(CLI::App& app, const std::string& name, const std::string& example) {
  const bool bench = app.get_name() == "bench";
  for (const TrainingCommand& command :
       bench ? std::span<const TrainingCommand>(bench_commands) : std::span<const TrainingCommand>(training_commands)) {
    if (command.name != name) continue;
    CLI::App& added = *app.add_subcommand(name, command.description);
    add_command_flags(added, example);
    return added;
  }
  throw Error(ErrorCode::argument, "command", name + " is not a training command");
}

}  // namespace rtf::cli
