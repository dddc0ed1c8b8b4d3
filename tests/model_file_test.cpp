#include "rtf/model_file.h"

#include <gtest/gtest.h>

#include "core/checksum.h"
#include "random_model.h"
#include "rtf/error.h"
#include "rtf/safetensors.h"
#include "temporary_folder.h"

namespace rtf {
namespace {

using test::error_of;
using test::read_bytes;
using test::TemporaryFolder;
using test::write_bytes;
using testing::RandomModels;

void expect_same(const Linear& x, const Linear& y) {
  EXPECT_EQ(x.weight, y.weight);
  EXPECT_EQ(x.bias, y.bias);
}

struct SameForm {
  void operator()(const TransferFunction& x, const TransferFunction& y) const {
    EXPECT_EQ(std::tie(x.channels, x.groups, x.order), std::tie(y.channels, y.groups, y.order));
    EXPECT_EQ(std::tie(x.a, x.b, x.h0), std::tie(y.a, y.b, y.h0));
  }
  void operator()(const std::vector<SecondOrderSections>& x, const std::vector<SecondOrderSections>& y) const {
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t c = 0; c < x.size(); ++c) EXPECT_EQ(x[c].sections, y[c].sections);
  }
  void operator()(const std::vector<Modal>& x, const std::vector<Modal>& y) const {
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t c = 0; c < x.size(); ++c)
      EXPECT_EQ(std::tie(x[c].poles, x[c].residues, x[c].h0), std::tie(y[c].poles, y[c].residues, y[c].h0));
  }
  template <class X, class Y>
  void operator()(const X&, const Y&) const {
    ADD_FAILURE() << "another form";
  }
};

void expect_same(const LayerRealization& x, const LayerRealization& y) {
  EXPECT_EQ(x.precision, y.precision);
  EXPECT_EQ(x.pole_radius, y.pole_radius);
  EXPECT_EQ(x.error, y.error);
  std::visit(SameForm(), x.realization, y.realization);
}

TEST(ModelFile, RoundTripsEveryArchitecture) {
  TemporaryFolder folder;
  const std::string path = folder.file("m.safetensors");
  RandomModels random(1);
  for (int round = 0; round < 100; ++round) {
    Architecture a = random.architecture();
    a.bidirectional = random.chance(0.3);
    ModelFile file = random.model(a, random.chance(0.5) ? DataType::f32 : DataType::f64);
    for (ModelBlock& block : file.blocks) {
      block.layer.pole_radius = random.uniform();
      block.layer.error = 1e-7 * random.uniform();
    }
    write_model(path, file);
    const ModelFile back = read_model(path);
    EXPECT_EQ(back.architecture, file.architecture);
    EXPECT_EQ(back.precision, file.precision);
    expect_same(back.encoder, file.encoder);
    expect_same(back.norm, file.norm);
    ASSERT_EQ(back.blocks.size(), file.blocks.size());
    for (std::size_t i = 0; i < file.blocks.size(); ++i) {
      expect_same(back.blocks[i].norm, file.blocks[i].norm);
      expect_same(back.blocks[i].output, file.blocks[i].output);
      expect_same(back.blocks[i].layer, file.blocks[i].layer);
      ASSERT_EQ(back.blocks[i].backward.has_value(), a.bidirectional);
      if (a.bidirectional) expect_same(*back.blocks[i].backward, *file.blocks[i].backward);
    }
    ASSERT_EQ(back.decoder.size(), file.decoder.size());
    for (std::size_t i = 0; i < file.decoder.size(); ++i) expect_same(back.decoder[i], file.decoder[i]);
  }
}

ModelFile small_model(Architecture::Decoder decoder = Architecture::Decoder::position) {
  RandomModels random(2);
  Architecture a;
  a.features = 2;
  a.channels = 4;
  a.layers = 2;
  a.outputs = 3;
  a.decoder = decoder;
  a.length = 16;
  ModelFile file = random.model(a, DataType::f32, 5);
  file.blocks[0].layer = random.layer(4, 3, testing::Form::companion, 0.9, DataType::f32);
  file.blocks[1].layer = random.layer(4, 3, testing::Form::modal, 0.9, DataType::f32);
  return file;
}

TEST(ModelFile, RefusesLyingFiles) {
  TemporaryFolder folder;
  const std::string path = folder.file("m.safetensors");
  write_model(path, small_model());
  const std::string whole = read_bytes(path);
  const TensorFile good = read_safetensors(path);

  const auto expect = [&](const std::string& part) {
    const std::string text = error_of([&] { read_model(path); });
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_NE(text.find(path), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  };
  // A file with a right checksum that says something else.
  const auto changed = [&](auto&& change, const std::string& part) {
    TensorFile file = good;
    change(file);
    file.metadata["crc32"] = std::to_string(checksum(file));
    write_safetensors(path, file);
    expect(part);
  };
  const auto architecture = [&](const std::string& from, const std::string& to, const std::string& part) {
    changed(
        [&](TensorFile& file) {
          std::string& text = file.metadata["architecture"];
          const std::size_t at = text.find(from);
          ASSERT_NE(at, std::string::npos);
          text.replace(at, from.size(), to);
        },
        part);
  };

  for (const std::size_t size : {whole.size() - 1, whole.size() / 2, std::size_t{20}, std::size_t{3}}) {
    write_bytes(path, whole.substr(0, size));
    expect("");
  }
  std::string flipped = whole;
  flipped[whole.size() - 5] = static_cast<char>(flipped[whole.size() - 5] ^ 1);
  write_bytes(path, flipped);
  expect("damaged: its checksum does not match");

  changed([](TensorFile& f) { f.metadata["format"] = "rtf-model 2"; },
          "format version 2; this library reads version 1");
  changed([](TensorFile& f) { f.metadata["format"] = "1"; }, "its format is '1'");
  changed([](TensorFile& f) { f.metadata["format"] = "rtf-model x"; }, "'x'");
  changed([](TensorFile& f) { f.metadata.erase("format"); }, "has no 'format'");
  changed([](TensorFile& f) { f.metadata.erase("layers"); }, "has no 'layers'");
  changed([](TensorFile& f) { f.metadata["layers"] = "[]"; }, "does not list the 2 layers");
  changed([](TensorFile& f) { f.metadata["architecture"] = "[]"; }, "expected an object");
  changed([](TensorFile& f) { f.metadata["architecture"] = "{"; }, "not valid JSON");
  changed([](TensorFile& f) { f.tensors.erase("encoder.bias"); }, "encoder.bias is missing");
  changed([](TensorFile& f) { f.tensors["more"] = {{1}, {1}, DataType::f32}; }, "'more' has no place");
  changed([](TensorFile& f) { f.tensors["encoder.bias"].type = DataType::f64; }, "encoder.bias is F64, expected F32");
  changed([](TensorFile& f) { f.tensors["encoder.bias"].values[1] = NAN; }, "not finite");
  changed(
      [](TensorFile& f) {
        f.tensors["blocks.0.layer.a"] = {{3, 3}, std::vector<double>(9), DataType::f32};
      },
      "3 denominators, which do not divide 4 channels");
  changed([](TensorFile& f) { f.tensors["blocks.0.layer.a"] = {{0, 3}, {}, DataType::f32}; }, "0 denominators");
  changed([](TensorFile& f) { f.tensors["blocks.1.layer.poles"].values[1] = 3; }, "without its conjugate");
  architecture("\"channels\":4", "\"channels\":5", "expected (5, 2)");
  architecture("\"channels\":4", "\"channels\":-4", "'channels' is -4");
  architecture("\"channels\":4", "\"channels\":4294967296", "'channels' is 4294967296");
  architecture("\"channels\":4", "\"channels\":0", "channels is 0; at least 1");
  architecture("\"layers\":2", "\"layers\":3", "does not list the 3 layers");
  architecture("\"glu\":true", "\"glu\":1", "'glu' is 1, expected true or false");
  architecture("\"glu\":true", "\"glu\":false", "has no place in this model");
  architecture("\"glu\":true,", "", "has no 'glu'");
  architecture("\"glu\":true", "\"glu\":true,\"more\":1", "keys that this version does not know");
  architecture("\"position\"", "\"everywhere\"", "expected one of pool, last, position, pair");
}

TEST(ModelFile, SurvivesDamage) {
  TemporaryFolder folder;
  const std::string path = folder.file("m.safetensors");
  write_model(path, small_model(Architecture::Decoder::pair));
  test::expect_survives_damage(
      read_bytes(path), path, [](const std::string& p) { read_model(p); }, 600);
}

TEST(ModelFile, WritesNothingThatItWouldRefuse) {
  TemporaryFolder folder;
  const std::string path = folder.file("m.safetensors");
  const auto expect = [&](auto&& change, const std::string& part) {
    ModelFile file = small_model();
    change(file);
    const std::string text = error_of([&] { write_model(path, file); });
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_EQ(folder.file_count(), 0u);
  };
  expect([](ModelFile& f) { f.encoder.bias.pop_back(); }, "encoder.bias has 3 values, but shape (4)");
  expect([](ModelFile& f) { f.encoder.bias[0] = INFINITY; }, "not finite");
  expect([](ModelFile& f) { f.blocks.pop_back(); }, "1 blocks");
  expect([](ModelFile& f) { f.decoder.clear(); }, "0 linear layers");
  expect([](ModelFile& f) { f.architecture.bidirectional = true; }, "no backward layer");
  expect([](ModelFile& f) { f.architecture.outputs = 0; }, "outputs is 0");
  expect([](ModelFile& f) { std::get<std::vector<Modal>>(f.blocks[1].layer.realization).pop_back(); }, "3 channels");
}

TEST(Checksum, IsZlibs) {
  EXPECT_EQ(crc32(0, "123456789", 9), 0xCBF43926u);  // the check value of CRC-32
  const std::string text = "The quick brown fox jumps over the lazy dog";
  EXPECT_EQ(crc32(0, text.data(), text.size()), 0x414FA339u);
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(crc32(crc32(0, text.data(), cut), text.data() + cut, text.size() - cut), 0x414FA339u);
}

}  // namespace
}  // namespace rtf
