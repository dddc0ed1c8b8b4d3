// Trains a small model to say what it heard five samples ago, then runs it sample by sample.
#include <rtf_torch/sequence_model.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>

int main() {
  rtf::nn::SequenceModelOptions options;
  options.layers = 1;
  options.layer.channels = 8;
  options.layer.order = 8;
  options.layer.length = 32;  // of the training sequences
  options.norm = rtf::nn::Norm::none;
  options.decoder = rtf::nn::Decoder::position;
  options.outputs = 1;
  rtf::nn::SequenceModel model(options);
  torch::optim::AdamW optimizer(model->parameters(), 0.01);

  torch::manual_seed(0);
  for (int step = 1; step <= 200; ++step) {
    const auto u = torch::randn({16, 32, 1});
    const auto loss = torch::mse_loss(model->forward(u), torch::constant_pad_nd(u, {0, 0, 5, -5}));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 50 == 0) std::printf("step %d  loss %.4f\n", step, loss.item<double>());
  }

  model->eval();
  const auto u = torch::randn({1, 32, 1});
  const auto all = model->forward(u);  // by convolution
  auto state = model->make_state(1);   // as a recurrence
  double difference = 0;
  for (int t = 0; t < 32; ++t) {
    const auto y = model->step(u.select(1, t), state);
    difference = std::max(difference, (y - all.select(1, t)).abs().max().item<double>());
  }
  std::puts(difference < 1e-5 ? "step and forward agree" : "step and forward DIFFER");
}
