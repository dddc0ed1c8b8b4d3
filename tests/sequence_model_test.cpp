// What a refusal leaves behind. What the model computes is checked from Python (test_model.py).
#include "rtf_torch/sequence_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace rtf::nn {
namespace {

TEST(SequenceModel, ALengthIsSetInAllLayersOrNone) {
  SequenceModelOptions options;
  options.layers = 2;
  options.layer.channels = 2;
  options.layer.order = 3;
  options.layer.length = 32;
  options.layer.init = Init::montel;
  options.outputs = 1;
  SequenceModel model(options);
  model->named_parameters()["blocks.1.layer.a"].detach().fill_(std::numeric_limits<float>::quiet_NaN());
  const at::Tensor b = model->named_parameters()["blocks.0.layer.b"], before = b.detach().clone();
  EXPECT_THROW(model->set_length(16), c10::Error);
  EXPECT_TRUE(at::equal(b, before));
  EXPECT_EQ(model->options.layer.length, 32);

  model->named_parameters()["blocks.1.layer.a"].detach().zero_();
  model->set_length(16);
  EXPECT_FALSE(at::equal(b, before));
}

}  // namespace
}  // namespace rtf::nn
