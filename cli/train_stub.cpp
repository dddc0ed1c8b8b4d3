// Stand-in for train.cpp and eval.cpp.
#include <memory>
#include <thread>

#include "rtf/error.h"
#include "train/run_folder.h"
#include "train_common.h"
namespace rtf::cli {
void add_train(CLI::App& app) {
  CLI::App& command = add_training_command(app, "train", "  rtf train");
  struct O {
    std::string config, out, resume;
    std::vector<std::string> keys;
    bool list = false;
  };
  auto o = std::make_shared<O>();
  command.add_option("CONFIG", o->config, "");
  command.add_option("KEYS", o->keys, "");
  command.add_option("--out", o->out, "");
  command.add_option("--resume", o->resume, "");
  command.add_flag("--keys", o->list, "");
  command.callback([o] {
    if (o->list) return print_config_keys();
    auto run = o->resume.empty() ? train::RunFolder::create(o->out, train::load_config(o->config, o->keys))
                                 : train::RunFolder::open(o->resume);
    train::RunLock lock(run);
    auto c = train::load_config(run.config());
    write_status(run, {train::RunState::running, 1, 0, 1.5, "loss", {}});
    std::this_thread::sleep_for(std::chrono::milliseconds(c.train.steps));
    if (c.model.order == 13) throw Error(ErrorCode::argument, "train", "unlucky");
    write_status(run, {train::RunState::finished, 10, 1, 61.5, "accuracy", 1.0 / double(c.model.order)});
  });
}
void add_eval(CLI::App& app) { add_training_command(app, "eval", "  rtf eval"); }
}  // namespace rtf::cli
