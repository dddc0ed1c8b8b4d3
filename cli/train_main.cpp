// rtf-train: the subcommands of rtf that need LibTorch.
#include <malloc.h>

#include "entry.h"
#include "train_common.h"

namespace {

// Activations of a few megabytes come and go with every step. Given back to the system, their pages would be cleared
// and mapped again each time, a tenth of a step's work; 32 MB is the largest threshold that glibc takes.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  CLI::App app("Training of sequence models whose layers are rational transfer functions.", "rtf");
  rtf::cli::add_program_flags(app, "`rtf COMMAND --help` shows an example of each command.");
  rtf::cli::add_train(app);
  rtf::cli::add_eval(app);
  rtf::cli::add_runs(app);
  rtf::cli::add_sweep(app);
  return rtf::cli::run_program(app, argc, argv);
}
