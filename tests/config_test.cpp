#include "train/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "expect_refusal.h"
#include "temporary_folder.h"

namespace rtf::train {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::write_bytes;

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) { write("c.yaml", text); }
  void write(const std::string& name, const std::string& text) { write_bytes(folder_.file(name), text); }
  Config load(const std::vector<std::string>& overrides = {}) const { return load_config(path(), overrides); }
  std::string error(const std::vector<std::string>& overrides = {}) const {
    return error_of([&] { load(overrides); });
  }
  std::string path(const std::string& name = "c.yaml") const { return folder_.file(name); }

 private:
  TemporaryFolder folder_;
};

void expect_holds(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

// Another value that the key may hold.
std::string other_value(const ConfigKey& key) {
  if (key.type == "true or false") return key.initial == "true" ? "false" : "true";
  if (key.type == "text") return "some folder: #1 \"quoted\" \\ \xc3\xa9";
  if (key.type.starts_with("one of ")) {
    std::string last = key.type.substr(key.type.rfind(' ') + 1);
    if (last.ends_with(":N")) last.replace(last.size() - 1, 1, "1");
    return last != key.initial ? last : key.type.substr(7, key.type.find(',') - 7);
  }
  if (key.type.starts_with("integer")) return "7";
  return "0.30000000000000004";
}

// A layer that uses the key, and that has the word that other_value() takes.
std::string layer_of(const ConfigKey& key) {
  if (key.path == "model.constraint") return "s5";
  if (key.path == "model.init" || key.path == "model.layer") return "spacetime";
  for (const char* layer : {"rtf", "s4", "s4d", "s5", "spacetime"})
    if (key.meaning.starts_with(std::string(layer) + ",") || key.meaning.starts_with(std::string(layer) + ":"))
      return layer;
  return "rtf";
}

TEST(Config, EveryKeyIsReadAndWrittenBack) {
  for (const char* task : {"copying", "delay", "reconstruct", "smnist", "listops", "image"}) {
    // Sizes at which every value of other_value() fits.
    const bool signals = std::string(task) == "delay" || std::string(task) == "reconstruct";
    std::vector<std::string> base = {"model.channels=7"};
    if (signals) base.insert(base.end(), {"task.length=100", "task.dt=0.1", "task.band=1"});
    if (std::string(task) == "delay") base.push_back("task.lag=3");
    if (std::string(task) == "reconstruct") base.push_back("task.window=3");
    int used = 0;
    for (const ConfigKey& key : config_keys()) {
      if (key.path == "task.name") continue;
      const std::string layer = key.path == "model.layer" ? "s4" : layer_of(key);
      const ConfigFile file(std::string("task: {name: ") + task + "}\nmodel: {layer: " + layer + ", order: 14}");
      const Config before = file.load(base);
      std::vector<std::string> overrides = base;
      if (key.path == "model.residual") overrides.push_back("model.norm=none");
      if (key.path == "model.channels")
        overrides.push_back("model.channels=9");
      else
        overrides.push_back(key.path + "=" +
                            (key.path == "task.length"  ? "70"
                             : key.path == "model.rank" ? "2"
                                                        : other_value(key)));
      if (key.path == "model.dt_min") overrides.push_back("model.dt_max=0.5");
      // One word is no other: the layer's only one.
      if (key.path == "model.init") overrides.back() = "model.layer=rtf", overrides.push_back("model.init=montel");
      if (key.path == "model.initial_c") overrides.push_back("model.init=fourier");
      const bool of_some = (key.path.starts_with("task.") && !key.path.ends_with("_size")) ||
                           key.path == "data.cache" || key.path == "data.bucket" || key.path == "data.pad_to";
      if (of_some && key.meaning.find(task) == std::string::npos) {
        expect_holds(file.error(overrides), {"the command line", key.path, task});
        continue;
      }
      ++used;
      const Config after = file.load(overrides);
      EXPECT_NE(after, before) << key.path;
      const ConfigFile written(to_yaml(after));
      EXPECT_EQ(written.load(), after) << to_yaml(after);
      const auto difference = first_difference(before, after);
      ASSERT_TRUE(difference) << key.path;
      const std::map<std::string, std::string> earlier = {
          {"model.residual", "model.norm"}, {"model.init", "model.layer"}, {"model.initial_c", "model.init"}};
      EXPECT_EQ(difference->path, earlier.contains(key.path) ? earlier.at(key.path) : key.path);
      EXPECT_FALSE(first_difference(before, before));
    }
    EXPECT_GT(used, 40);
  }
}

TEST(Config, LayersHaveKeysOfTheirOwn) {
  const ConfigFile file("task: {name: delay}\nmodel: {init: montel, initial_gain: release, kernel_dropout: 0.1}");
  EXPECT_EQ(file.load().model.init, "montel");
  EXPECT_EQ(ConfigFile("task: {name: delay}").load().model.init, "zero");
  // Another layer leaves behind what was said of the one before.
  const Config chosen = file.load({"model.layer=s4d", "model.discretization=bilinear"});
  EXPECT_EQ(chosen.model.init, "lin");
  EXPECT_EQ(chosen.model.kernel_dropout, 0);
  EXPECT_EQ(to_yaml(chosen).find("kernel_dropout"), std::string::npos);
  EXPECT_EQ(fixed_settings(file.load()).count("model.dt_min"), 0u);
  // What is said of the layer itself is not.
  expect_holds(file.error({"model.rank=2"}),
               {"the command line: model.rank means nothing to the layer rtf, only to s4"});
  expect_holds(file.error({"model.layer=s4", "model.init=lin"}),
               {"model.init is 'lin', expected one of legs, fourier because model.layer is s4"});
  expect_holds(file.error({"model.layer=s4", "model.numerator=exact"}),
               {"model.numerator means nothing to the layer s4, only to rtf"});
  expect_holds(file.error({"model.layer=s4d", "model.order=7"}), {"model.order is 7, expected an even number"});
  expect_holds(file.error({"model.layer=s4", "model.dt_min=1"}),
               {"model.dt_min is 1, expected at most model.dt_max, 0.1"});
  expect_holds(file.error({"model.layer=s5", "model.denominators=2"}), {"model.denominators is 2, expected 1"});
  expect_holds(file.error({"model.layer=s5", "model.blocks=5"}), {"model.blocks is 5, expected a divisor of half"});
  expect_holds(file.error({"model.layer=s4", "model.initial_c=constant"}),
               {"model.initial_c is constant, expected normal"});
  expect_holds(file.error({"model.layer=s6"}), {"model.layer is 's6', expected one of rtf, s4, s4d, s5, spacetime"});
}

TEST(Config, NumbersKeepEveryBit) {
  const ConfigFile file("task: {name: smnist}");
  Config config = file.load();
  for (const double value : {0.1, 1.0 / 3, std::nextafter(1.0, 2.0), 5e-324, 1.7976931348623157e308, 0.0, 1e22}) {
    config.optimizer.lr = value;
    config.optimizer.ssm_lr = value;
    config.train.seed = std::numeric_limits<uint64_t>::max();
    config.train.steps = std::numeric_limits<int32_t>::max();
    EXPECT_EQ(ConfigFile(to_yaml(config)).load(), config) << value;
  }
}

TEST(Config, KeysAreDocumented) {
  const auto keys = config_keys();
  for (const ConfigKey& key : keys) {
    EXPECT_FALSE(key.meaning.empty()) << key.path;
    EXPECT_FALSE(key.initial.empty()) << key.path;
    EXPECT_EQ(std::count_if(keys.begin(), keys.end(), [&](const auto& other) { return other.path == key.path; }), 1);
  }
}

TEST(Config, TheIncludingFileWinsAndTheCommandLineOverAll) {
  ConfigFile file("include: [first.yaml, sub/second.yaml]\nmodel: {order: 3}\n");
  file.write("first.yaml", "task: {name: copying}\nmodel: {order: 1, layers: 1, channels: 1}\n");
  std::filesystem::create_directory(file.path("sub"));
  file.write("sub/second.yaml", "include: third.yaml\nmodel: {order: 2, layers: 2}\n");
  file.write("sub/third.yaml", "model: {order: 9, layers: 9}\ntrain: {batch: 9}\noptimizer:\n");
  const Config config = file.load({"train.epochs=5", "train.epochs=6"});
  EXPECT_EQ(config.model.order, 3);
  EXPECT_EQ(config.model.layers, 2);
  EXPECT_EQ(config.model.channels, 1);
  EXPECT_EQ(config.train.batch, 9);
  EXPECT_EQ(config.train.epochs, 6);
  EXPECT_EQ(file.load({"model.order=4"}).model.order, 4);
}

TEST(Config, TheSameFileMayBeIncludedTwiceButNotInACircle) {
  ConfigFile file("include: [a.yaml, b.yaml]\ntask: {name: copying}\n");
  file.write("a.yaml", "include: common.yaml\n");
  file.write("b.yaml", "include: common.yaml\n");
  file.write("common.yaml", "train: {batch: 3}\n");
  EXPECT_EQ(file.load().train.batch, 3);
  file.write("common.yaml", "include: c.yaml\n");
  expect_holds(file.error(), {"includes itself", "common.yaml"});
  file.write("c.yaml", "include: ./c.yaml\n");
  expect_holds(file.error(), {"includes itself"});
  file.write("c.yaml", "include: missing.yaml\n");
  expect_holds(file.error(), {"missing.yaml", "No such file"});
  file.write("c.yaml", "include: {a: b}\n");
  expect_holds(file.error(), {"c.yaml", "include"});
}

TEST(Config, NullIsTheDefaultOfOptionalKeysOnly) {
  const ConfigFile file("task: {name: copying}\noptimizer: {lr: 0.5, ssm_lr: 0.25, ssm_weight_decay: null}\n");
  EXPECT_EQ(file.load().optimizer.ssm_lr, 0.25);
  EXPECT_FALSE(file.load().optimizer.ssm_weight_decay);
  EXPECT_FALSE(file.load({"optimizer.ssm_lr=null"}).optimizer.ssm_lr);
  expect_holds(file.error({"optimizer.lr=null"}), {"optimizer.lr is null", "a number from 0 on"});
}

TEST(Config, UnknownKeysNameTheNearest) {
  const ConfigFile file("task: {name: copying}\noptimizer: {lrr: 1}\n");
  expect_holds(file.error(), {"[rtf::load_config] unknown key 'optimizer.lrr' in " + file.path(), "'optimizer.lr'?"});
  const ConfigFile good("task: {name: copying}\n");
  expect_holds(good.error({"lr=1"}), {"unknown key 'lr' in the command line", "'optimizer.lr'?"});
  expect_holds(good.error({"train.lr=1"}), {"'optimizer.lr'?"});
  expect_holds(good.error({"model.chanels=1"}), {"'model.channels'?"});
  expect_holds(good.error({"optmizer.beta2=1"}), {"'optimizer.beta2'?"});
  expect_holds(good.error({"Optimizer.LR=1"}), {"'optimizer.lr'?"});
  expect_holds(ConfigFile("optimiser: {lr: 1}").error(), {"unknown key 'optimiser'", "'optimizer'?"});
  expect_holds(ConfigFile("Train: {batch: 1}").error(), {"unknown key 'Train'", "'train'?"});
  for (const char* strange : {"a=b=c", "zzzzzz=1", "x.y.z=1"}) {
    const std::string message = good.error({strange});
    expect_holds(message, {"unknown key", "rtf train --keys"});
    EXPECT_EQ(message.find("did you mean"), std::string::npos) << message;
  }
}

TEST(Config, WrongValuesNameTheKeyAndWhatIsExpected) {
  const ConfigFile file("task: {name: copying}\n");
  expect_holds(file.error({"train.batch=1.5"}), {"the command line: train.batch is '1.5', expected an integer from 1"});
  expect_holds(file.error({"train.batch=0"}), {"train.batch is '0'"});
  expect_holds(file.error({"train.batch=99999999999999999999"}), {"train.batch is '99999999999999999999'"});
  for (const char* key :
       {"train.epochs", "train.steps", "train.batch", "task.memory", "task.symbols", "model.length"}) {
    EXPECT_NO_THROW(file.load({key + std::string("=2147483647")}));
    expect_holds(file.error({key + std::string("=2147483648")}), {key, "is '2147483648', expected an integer from"});
  }
  expect_holds(file.error({"train.threads=1025"}), {"train.threads is '1025', expected an integer from 0 to 1024"});
  expect_holds(file.error({"model.layers=10001"}), {"model.layers is '10001', expected an integer from 1 to 10000"});
  expect_holds(file.error({"model.order=1000001"}), {"model.order is '1000001'", "1000000"});
  expect_holds(file.error({"data.path=a\xff"}), {"the command line: data.path is not UTF-8"});
  expect_holds(file.error({"model.norm=\xc3"}), {"the command line: model.norm is not UTF-8"});
  expect_holds(file.error({"train.seed=-1"}), {"train.seed is '-1', expected an integer from 0"});
  expect_holds(file.error({"optimizer.lr=fast"}), {"optimizer.lr is 'fast', expected a number from 0 on"});
  expect_holds(file.error({"optimizer.lr=nan"}), {"optimizer.lr is 'nan'"});
  expect_holds(file.error({"optimizer.lr=inf"}), {"optimizer.lr is 'inf'"});
  expect_holds(file.error({"optimizer.lr="}), {"optimizer.lr is ''"});
  expect_holds(file.error({"optimizer.beta1=1"}), {"optimizer.beta1 is '1', expected a number from 0 to below 1"});
  expect_holds(file.error({"model.glu=yes"}),
               {"model.glu is 'yes', expected one of true, false, half_glu1, half_glu2"});
  expect_holds(file.error({"model.norm=bacth"}), {"model.norm is 'bacth', expected one of none, batch, layer"});
  expect_holds(file.error({"train.batch"}), {"'train.batch' on the command line is not of the form key=value"});
  expect_holds(file.error({"=3"}), {"'=3'"});
  expect_holds(file.error({"train=3"}), {"train is a section"});
  expect_holds(ConfigFile("task: {name: copying}\ntrain: {batch: '8'}").error(), {"c.yaml: train.batch is '8'"});
  expect_holds(ConfigFile("task: {name: copying}\ntrain: {batch: [8]}").error(), {"train.batch is a list"});
  expect_holds(ConfigFile("task: {name: copying}\ntrain: 8").error(), {"train is a section"});
  expect_holds(ConfigFile("task: copying").error(), {"task is a section"});
  expect_holds(ConfigFile("model: {order: 3}").error(), {"task.name is missing"});
  expect_holds(ConfigFile("").error(), {"task.name is missing"});
}

TEST(Config, MalformedFilesAreRefused) {
  expect_holds(ConfigFile("task: {name: copying").error(), {"c.yaml: not valid YAML", "line"});
  expect_holds(ConfigFile("task: {name: copying}\n---\ntrain: {batch: 1}\n").error(), {"c.yaml: 2 YAML documents"});
  expect_holds(ConfigFile("task: {name: smnist}\ndata: {path: a\xff}").error(), {"c.yaml: not UTF-8"});
  expect_holds(ConfigFile("- 1\n- 2\n").error(), {"not a mapping"});
  expect_holds(ConfigFile("task: {name: copying}\ntrain: {batch: 1, batch: 2}").error(), {"'batch' appears twice"});
  expect_holds(ConfigFile("task: {name: copying}\ntask: {noise: 2}").error(), {"'task' appears twice"});
  expect_holds(ConfigFile("task.name: copying\ntask: {name: delay}").error(), {"task.name appears twice"});
  expect_holds(ConfigFile("? [a, b]\n: 1").error(), {"a key is not a word"});
  expect_holds(error_of([] { load_config("/nowhere/c.yaml"); }), {"cannot read /nowhere/c.yaml"});
}

TEST(Config, KeysThatDoNotFitTogetherAreRefused) {
  const ConfigFile copying("task: {name: copying}"), delay("task: {name: delay}");
  const ConfigFile reconstruct("task: {name: reconstruct, dt: 0.001, band: 100}");
  EXPECT_EQ(delay.load().task.lag, 1000);
  EXPECT_EQ(reconstruct.load().task.window, 1000);
  expect_holds(delay.error({"task.lag=4000"}), {"task.lag is 4000", "4000"});
  expect_holds(delay.error({"task.band=2001"}), {"task.band is 2001", "2000"});
  expect_holds(delay.error({"task.band=0.5"}), {"task.band is 0.5"});
  expect_holds(reconstruct.error({"task.window=4001"}), {"task.window is 4001"});
  expect_holds(copying.error({"model.denominators=3"}), {"model.denominators is 3", "256"});
  expect_holds(copying.error({"model.residual=false"}), {"model.norm is batch", "model.residual"});
  expect_holds(copying.error({"model.residual=false", "model.norm=none", "model.dropout=0.1"}), {"model.dropout"});
  expect_holds(copying.error({"train.chunk=8", "model.bidirectional=true"}), {"train.chunk is 8"});
  expect_holds(copying.error({"optimizer.warmup=8", "optimizer.total=8"}), {"optimizer.warmup is 8"});
  EXPECT_EQ(copying.load({"train.device=cuda:127"}).train.device, "cuda:127");
  expect_holds(copying.error({"train.precision=tf32"}), {"train.precision is tf32", "train.device is cpu"});
  for (const char* name : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "cuda:128", "cuda:300"}) {
    expect_holds(copying.error({std::string("train.device=") + name}), {name, "expected one of cpu, cuda, cuda:N"});
  }
}

TEST(Config, EveryExperimentLoads) {
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(RTF_EXPERIMENTS)) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    const Config config = load_config(entry.path().string());
    const std::string stem = entry.path().stem().string();  // ablations of first values are all on one task
    EXPECT_TRUE(stem.starts_with(config.task.name) || stem.starts_with("init_")) << entry.path();
    // What a checkpoint holds of it is all that its model and its mathematics are made of.
    const Config again = from_settings(fixed_settings(config), "a checkpoint");
    EXPECT_EQ(fixed_settings(again), fixed_settings(config)) << entry.path();
  }
  EXPECT_GE(files, 24);
}

TEST(Config, DamagedSettingsAreRefused) {
  const auto refused = [](std::map<std::string, std::string> settings, const std::string& part) {
    settings.emplace("task.name", "copying");
    testing::expect_refusal(part, [&] { from_settings(settings, "best.safetensors"); });
  };
  refused({{"model.order", "many"}}, "best.safetensors: model.order is 'many', expected an integer");
  refused({{"model.order", "[1]"}}, "best.safetensors: model.order is not a single value");
  refused({{"model.order", "\"1"}}, "best.safetensors: model.order is '\"1'");
  refused({{"model.size", "1"}}, "unknown key 'model.size' in best.safetensors");
}

TEST(Config, AlikeConfigsAreEqual) {
  const ConfigFile file("task: {name: copying}");
  EXPECT_FALSE(first_difference(file.load(), file.load()));
  const auto difference = first_difference(file.load(), file.load({"optimizer.ssm_lr=0.5", "train.batch=8"}));
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->path, "optimizer.ssm_lr");
  EXPECT_EQ(difference->left, "null");
  EXPECT_EQ(difference->right, "0.5");
}

}  // namespace
}  // namespace rtf::train
