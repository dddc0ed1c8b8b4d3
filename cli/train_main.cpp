// rtf-train: the subcommands of rtf that need LibTorch.
#include "entry.h"
#include "train_common.h"

int main(int argc, char** argv) {
  CLI::App app("Training of sequence models whose layers are rational transfer functions.", "rtf");
  rtf::cli::add_program_flags(app, "`rtf COMMAND --help` shows an example of each command.");
  rtf::cli::add_train(app);
  rtf::cli::add_eval(app);
  rtf::cli::add_export(app);
  rtf::cli::add_runs(app);
  rtf::cli::add_report(app);
  rtf::cli::add_sweep(app);
  CLI::App& bench = *app.add_subcommand("bench", rtf::cli::bench_description);
  bench.require_subcommand(1);
  rtf::cli::add_bench_table(bench);
  rtf::cli::add_bench_lra(bench);
  return rtf::cli::run_program(app, argc, argv);
}
