// The operators and modules as an installed package: only what is declared in the headers.
#include <rtf_torch/operators.h>
#include <rtf_torch/sequence_model.h>

#include <cstdio>

int main() {
  rtf::nn::SequenceModelOptions options;
  options.layer.channels = 4;
  options.layer.length = 16;
  options.outputs = 2;
  const rtf::nn::SequenceModel model(options);
  std::printf("%zu parameters\n", model->parameters().size());
  return model->parameters().empty();
}
