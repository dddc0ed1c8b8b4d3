// rtf train: a run from a config, or on from its checkpoint.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "rtf/error.h"
#include "train/launch.h"
#include "train_common.h"

namespace rtf::cli {
namespace {

struct TrainOptions {
  std::string config, out, resume, from = "latest";
  std::vector<std::string> overrides;
  train::LaunchOptions launch;
  bool keys = false;
};

void require(bool condition, const std::string& otherwise) {
  if (!condition) throw Error(ErrorCode::argument, "train", otherwise);
}

// An exit code that is neither success nor failure: the run has said why.
void leave(int code) {
  if (code == 0) return;
  std::cout.flush();
  std::fflush(stdout);
  std::exit(code);
}

void run(TrainOptions options) {
  if (options.keys) return print_config_keys();
  if (!options.resume.empty()) {
    require(options.out.empty(), "--resume goes on in the run's own folder; leave out --out");
    // The first word is an override here: the run has its config.
    if (!options.config.empty()) {
      require(options.config.find('=') != std::string::npos,
              "--resume takes the run's own config; leave out " + options.config);
      options.overrides.insert(options.overrides.begin(), options.config);
    }
    leave(train::resume_run(options.resume, options.from, options.overrides, options.launch));
    return;
  }
  require(!options.config.empty(), "CONFIG.yaml is missing; or go on with a run: rtf train --resume RUN");
  require(!options.out.empty(), "--out RUN is missing: the folder that the run goes to");
  leave(train::start_run(train::load_config(options.config, options.overrides), options.out, options.launch));
}

}  // namespace

void add_train(CLI::App& app) {
  CLI::App& command =
      add_training_command(app, "train",
                           "  rtf train experiments/small/copying.yaml train.epochs=5 --out runs/copying\n"
                           "  rtf train --resume runs/copying --minutes 20\n"
                           "  rtf train --resume runs/copying train.epochs=10 --from previous");
  auto options = std::make_shared<TrainOptions>();
  command.add_option("CONFIG", options->config, "config file (docs/config.md; --keys lists the keys)")->type_name("");
  command.add_option("KEY=VALUE", options->overrides, "keys that override the file's")->type_name("");
  command.add_option("-o,--out", options->out, "new folder of the run: config.yaml, metrics.csv, checkpoints/, events")
      ->type_name("RUN");
  auto* resume = command
                     .add_option("--resume", options->resume,
                                 "go on with a run, bit for bit; keys that leave its mathematics alone may change")
                     ->type_name("RUN");
  command.add_option("--from", options->from, "checkpoint to go on from: latest, previous or best")
      ->needs(resume)
      ->check(CLI::IsMember({"latest", "previous", "best"}))
      ->type_name("NAME");
  command
      .add_option("--minutes", options->launch.minutes,
                  "stop after so many minutes, with a checkpoint; --resume goes on")
      ->check([](const std::string& text) {
        double minutes = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), minutes);
        const bool number = error == std::errc() && end == text.data() + text.size() && std::isfinite(minutes);
        return number && minutes > 0 ? std::string() : "'" + text + "' is not a number above 0";
      })
      ->type_name("M");
  command.add_flag("--profile", options->launch.profile, "print seconds and share of each part of the run");
  command.add_flag("-q,--quiet", options->launch.quiet, "no progress bar, no summary");
  command.add_flag("--keys", options->keys, "list every config key with its type, default and meaning");
  command.callback([options] { run(*options); });
}

}  // namespace rtf::cli
