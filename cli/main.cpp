// The rtf command.
#include <string>

#include "common.h"
#include "entry.h"
#include "training.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Rational transfer functions: kernels, filtering, correction and poles; training of models made of them.", "rtf");
  rtf::cli::add_program_flags(
      app,
      "A filter file is JSON, {\"a\": [[..]..], \"b\": [[..]..], \"h0\": [..]}, or safetensors with these tensors.\n"
      "`rtf COMMAND --help` shows an example of each command.");
  rtf::cli::add_kernel(app);
  rtf::cli::add_filter(app);
  rtf::cli::add_freqz(app);
  rtf::cli::add_plot(app);
  rtf::cli::add_convert(app);
  rtf::cli::add_correct(app);
  rtf::cli::add_wrap(app);
  rtf::cli::add_poles(app);
  rtf::cli::add_fit(app);
  rtf::cli::add_reduce(app);
  rtf::cli::add_stabilize(app);
  rtf::cli::add_info(app);
  rtf::cli::add_stream(app);
  rtf::cli::add_data(app);
  rtf::cli::add_training_commands(app, argv);
  rtf::cli::add_bench(app, argv);
  return rtf::cli::run_program(app, argc, argv);
}
