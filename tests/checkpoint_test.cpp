#include "train/checkpoint.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "rtf/safetensors.h"
#include "temporary_folder.h"

namespace rtf::train {
namespace {

using test::error_of;
using test::TemporaryFolder;

Checkpoint example(double value = 0.1) {
  Checkpoint checkpoint;
  checkpoint.position = {.step = 7,
                         .epoch = 2,
                         .batch = 3,
                         .chunk = 1,
                         .evaluated = 5,
                         .best = 1.0 / 3,
                         .best_step = 5,
                         .loss_sum = 0.1 + 0.2,
                         .loss_count = 4,
                         .seconds = 1e-7};
  checkpoint.config = {{"train.batch", "8"}, {"data.path", "\"a b\""}};
  checkpoint.tensors = {{"model.blocks.0.layer.a", at::full({1, 64}, value, at::kFloat)},
                        {"model.decoder.bias", at::tensor({1e300, -0.0, 5e-324}, at::kDouble)},
                        {"optimizer.exp_avg.decoder.bias", at::zeros({0, 3}, at::kFloat)},
                        {"model.count", at::scalar_tensor(12345, at::kLong)}};
  checkpoint.shape = {{"decoder", "last"}, {"outputs", "3"}};
  return checkpoint;
}

TEST(Checkpoint, ReadsBackBitForBit) {
  const TemporaryFolder folder;
  const Checkpoint out = example();
  write_checkpoint(folder.file(""), out, false);
  const Checkpoint in = read_checkpoint(folder.file(latest_file));
  EXPECT_EQ(in.position.step, 7);
  EXPECT_EQ(in.position.epoch, 2);
  EXPECT_EQ(in.position.batch, 3);
  EXPECT_EQ(in.position.chunk, 1);
  EXPECT_EQ(in.position.evaluated, 5);
  EXPECT_EQ(in.position.best, 1.0 / 3);
  EXPECT_EQ(in.position.best_step, 5);
  EXPECT_EQ(in.position.loss_sum, 0.1 + 0.2);
  EXPECT_EQ(in.position.loss_count, 4);
  EXPECT_EQ(in.position.seconds, 1e-7);
  EXPECT_EQ(in.config, out.config);
  EXPECT_EQ(in.shape, out.shape);
  NamedTensors into;
  for (const auto& [name, tensor] : out.tensors) into.emplace_back(name, at::full_like(tensor, 9));
  load_tensors(in, into, "", "file");
  for (std::size_t i = 0; i < into.size(); ++i) {
    EXPECT_TRUE(at::equal(into[i].second, out.tensors[i].second)) << into[i].first;
    EXPECT_EQ(into[i].second.scalar_type(), out.tensors[i].second.scalar_type());
  }
  EXPECT_TRUE(std::signbit(into[1].second[1].item<double>()));
}

TEST(Checkpoint, KeepsThePreviousAndTheBest) {
  const TemporaryFolder folder;
  const auto value = [&](const char* name) {
    return read_checkpoint(folder.file(name)).tensors[0].second.flatten()[0].item<float>();
  };
  write_checkpoint(folder.file(""), example(1), true);
  EXPECT_EQ(folder.file_count(), 2u);
  write_checkpoint(folder.file(""), example(2), false);
  write_checkpoint(folder.file(""), example(3), false);
  EXPECT_EQ(value(latest_file), 3);
  EXPECT_EQ(value(previous_file), 2);
  EXPECT_EQ(value(best_file), 1);
  EXPECT_EQ(folder.file_count(), 3u);  // no temporary stays
}

TEST(Checkpoint, ThePreviousCanBecomeTheLatest) {
  const TemporaryFolder folder;
  write_checkpoint(folder.file(""), example(1), false);
  write_checkpoint(folder.file(""), example(2), false);
  const std::string good = test::read_bytes(folder.file(previous_file));
  test::write_bytes(folder.file(latest_file), "damaged");
  for (int again = 0; again < 2; ++again) {  // the second time both names are one file
    make_latest(folder.file(""), folder.file(previous_file));
    EXPECT_EQ(test::read_bytes(folder.file(latest_file)), good);
    EXPECT_EQ(folder.file_count(), 2u);
  }
  write_checkpoint(folder.file(""), example(3), false);
  EXPECT_EQ(test::read_bytes(folder.file(previous_file)), good);
  EXPECT_EQ(folder.file_count(), 2u);
}

TEST(Checkpoint, AFailedWriteLeavesAllAsItWas) {
  const TemporaryFolder folder;
  write_checkpoint(folder.file(""), example(1), true);
  write_checkpoint(folder.file(""), example(2), false);
  const std::string latest = test::read_bytes(folder.file(latest_file)),
                    previous = test::read_bytes(folder.file(previous_file));
  // The name of the new file is taken by a folder, which no rename replaces.
  std::filesystem::create_directory(folder.file("next.safetensors.tmp"));
  error_of([&] { write_checkpoint(folder.file(""), example(3), true); });
  EXPECT_EQ(test::read_bytes(folder.file(latest_file)), latest);
  EXPECT_EQ(test::read_bytes(folder.file(previous_file)), previous);
}

TEST(Checkpoint, EveryFlippedBitAndEveryCutIsRefused) {
  const TemporaryFolder folder;
  write_checkpoint(folder.file(""), example(), false);
  const std::string good = test::read_bytes(folder.file(latest_file)), path = folder.file("damaged");
  int accepted = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    test::write_bytes(path, bad);
    try {
      const Checkpoint read = read_checkpoint(path);
      ++accepted;
      EXPECT_EQ(read.position.step, 7);
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
    if (at % 7 == 0) {
      test::write_bytes(path, good.substr(0, at));
      EXPECT_THROW(read_checkpoint(path), Error) << at;
    }
  }
  EXPECT_LE(accepted, 8);  // spaces of the header's padding
}

TEST(Checkpoint, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  write_checkpoint(folder.file(""), example(), false);
  const std::string path = folder.file(latest_file);
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  std::string bytes = test::read_bytes(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  test::write_bytes(folder.file("flipped"), bytes);
  expect(error_of([&] { read_checkpoint(folder.file("flipped")); }), "damaged: its checksum");

  TensorFile file = read_safetensors(path);
  file.metadata["format"] = "2";
  write_safetensors(folder.file("newer"), file);
  expect(error_of([&] { read_checkpoint(folder.file("newer")); }), "format '2'; this version reads format 1");
  write_safetensors(folder.file("weights"), {file.tensors, {}});
  expect(error_of([&] { read_checkpoint(folder.file("weights")); }), "not a checkpoint");
}

TEST(Checkpoint, OfAnotherModelIsRefusedByName) {
  const Checkpoint checkpoint = example();
  const auto refusal = [&](const NamedTensors& into) {
    return error_of([&] { load_tensors(checkpoint, into, "model.", "FILE"); });
  };
  const auto bias = std::pair("model.decoder.bias", at::zeros({3}, at::kDouble));
  const auto count = std::pair("model.count", at::zeros({}, at::kLong));
  EXPECT_EQ(refusal({bias, count, {"model.blocks.0.layer.a", at::zeros({1, 32})}}),
            "[rtf::checkpoint] FILE: checkpoint of another model: blocks.0.layer.a is (1, 64) there and (1, 32) here");
  EXPECT_NE(refusal({bias, count}).find("blocks.0.layer.a is there and not here"), std::string::npos);
  EXPECT_NE(refusal({bias, count, {"model.norm.weight", at::zeros({3})}}).find("norm.weight is not there"),
            std::string::npos);
  EXPECT_EQ(bias.second.abs().sum().item<double>(), 0);  // nothing was copied
}

TEST(Checkpoint, TemporariesOfAKilledProcessAreRemoved) {
  const TemporaryFolder folder;
  write_checkpoint(folder.file(""), example(), false);
  test::write_bytes(folder.file(".rtf-123-0.tmp"), "half");
  test::write_bytes(folder.file("next.safetensors.tmp"), "half");
  remove_temporaries(folder.file(""));
  EXPECT_EQ(folder.file_count(), 1u);
}

// The files of a folder, by name.
std::map<std::string, std::string> files_in(const TemporaryFolder& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.file(""))) {
    files[entry.path().filename().string()] = test::read_bytes(entry.path().string());
  }
  return files;
}

TEST(Checkpoint, PartsOfAnySizeMakeTheSameCheckpoint) {
  const TemporaryFolder whole;
  write_checkpoint(whole.file(""), example(), false);
  const std::string bytes = test::read_bytes(whole.file(latest_file));
  for (const std::size_t size : {std::size_t{77}, std::size_t{256}, bytes.size() - 1, bytes.size()}) {
    const TemporaryFolder folder;
    write_checkpoint(folder.file(""), example(), true, size);
    const auto files = files_in(folder);
    EXPECT_EQ(files.size(), size == bytes.size() ? 2 : 2 + (bytes.size() + size - 1) / size);
    std::size_t sum = 0;
    for (const auto& [name, content] : files) {
      if (!name.ends_with(".part")) continue;
      EXPECT_LE(content.size(), size);
      sum += content.size();
    }
    EXPECT_EQ(sum, size == bytes.size() ? 0 : bytes.size());
    for (const char* name : {latest_file, best_file}) {
      const Checkpoint in = read_checkpoint(folder.file(name));
      EXPECT_EQ(in.position.seconds, 1e-7);
      EXPECT_EQ(in.config, example().config);
      EXPECT_TRUE(at::equal(in.tensors[0].second, example().tensors[0].second));
    }
  }
}

TEST(Checkpoint, PartsStayWhileSomethingNamesThem) {
  const TemporaryFolder folder;
  const auto value = [&](const char* name) {
    return read_checkpoint(folder.file(name)).tensors[0].second.flatten()[0].item<float>();
  };
  write_checkpoint(folder.file(""), example(1), true, 200);
  const std::size_t once = files_in(folder).size() - 2;  // the parts of one
  for (const double step : {2, 3, 4}) write_checkpoint(folder.file(""), example(step), false, 200);
  EXPECT_EQ(value(latest_file), 4);
  EXPECT_EQ(value(previous_file), 3);
  EXPECT_EQ(value(best_file), 1);
  // Parts with the same bytes are one file.
  EXPECT_LE(files_in(folder).size(), 3 + 3 * once);
  // What a killed process left, and other forms side by side.
  test::write_bytes(folder.file("step9-00000000-1of2.part"), "half");
  remove_temporaries(folder.file(""));
  EXPECT_FALSE(files_in(folder).contains("step9-00000000-1of2.part"));
  for (const double step : {5, 6}) write_checkpoint(folder.file(""), example(step), false);
  EXPECT_EQ(value(latest_file), 6);
  EXPECT_EQ(value(best_file), 1);
  write_checkpoint(folder.file(""), example(7), true);
  EXPECT_EQ(files_in(folder).size(), 3u);  // no index is left, and no part
}

TEST(Checkpoint, ADamagedIndexKeepsItsOwnPartsAlone) {
  const TemporaryFolder folder;
  const auto parts = [&] { return files_in(folder).size() - 3; };
  const auto write = [&](int step) {
    Checkpoint checkpoint = example(step);
    checkpoint.position.step = step;
    write_checkpoint(folder.file(""), checkpoint, step == 1, 200);
  };
  for (const int step : {1, 2, 3}) write(step);
  const std::size_t once = parts();
  const std::string index = test::read_bytes(folder.file(best_file));
  // Cut short, and with a name that is no longer one.
  for (const std::string& damaged : {index.substr(0, index.size() - 9), "{\"parts\":[1," + index.substr(10)}) {
    test::write_bytes(folder.file(best_file), damaged);
    for (int step = 4; step < 8; ++step) {
      write(step);
      EXPECT_EQ(parts(), once) << step;
    }
    test::write_bytes(folder.file(best_file), index);
    EXPECT_EQ(read_checkpoint(folder.file(best_file)).position.step, 1);
  }
}

TEST(Checkpoint, DamagedPartsAreRefused) {
  const TemporaryFolder folder;
  write_checkpoint(folder.file(""), example(), false, 200);
  const auto files = files_in(folder);
  const auto refusal = [&] { return error_of([&] { read_checkpoint(folder.file(latest_file)); }); };
  for (const auto& [name, content] : files) {
    for (std::string damaged :
         {std::string(), content.substr(0, content.size() - 2), content + "x", "?" + content.substr(1)}) {
      test::write_bytes(folder.file(name), damaged);
      const std::string line = refusal();
      EXPECT_NE(line.find(latest_file), std::string::npos) << line;
      EXPECT_TRUE(!name.ends_with(".part") || line.find(name) != std::string::npos) << line;
    }
    std::filesystem::remove(folder.file(name));
    EXPECT_TRUE(!name.ends_with(".part") || refusal().find("incomplete") != std::string::npos);
    test::write_bytes(folder.file(name), content);
  }
  for (const char* file : {"../secret", "/etc/passwd", ""}) {
    test::write_bytes(folder.file(latest_file),
                      std::string("{\"parts\":[{\"file\":\"") + file + "\",\"bytes\":1,\"crc32\":1}]}");
    EXPECT_NE(refusal().find("names the part"), std::string::npos);
  }
}

}  // namespace
}  // namespace rtf::train
