#include "train/recorder.h"

#include <fmt/format.h>

namespace rtf::train {

Recorder::Recorder(const RunFolder& folder, const Config& config, const std::vector<std::string>& metrics,
                   const std::string& selection, int64_t steps, std::optional<int64_t> step, bool quiet)
    : folder_(folder),
      metrics_(metrics),
      selection_(selection),
      rows_(folder.metrics(), metrics, step),
      events_(folder.path(), step),
      rate_step_(step.value_or(0)) {
  if (!quiet) progress_.emplace();
  shown_.epochs = config.train.epochs;
  shown_.steps = steps;
  events_.text("config", step.value_or(0), fmt::format("```yaml\n{}```", to_yaml(config)));
}

void Recorder::step(int64_t step, int64_t epoch, double loss) {
  shown_.step = step;
  shown_.epoch = epoch + 1;
  shown_.loss = loss;
  if (progress_) progress_->update(shown_);
}

void Recorder::train_row(int64_t step, int64_t epoch, double mean_loss, double lr, double gradient_norm) {
  rows_.row(step, epoch, "train", mean_loss);
  events_.scalar("train/loss", step, mean_loss);
  events_.scalar("train/lr", step, lr);
  events_.scalar("train/gradient_norm", step, gradient_norm);
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - rate_begin_).count();
  if (seconds > 0) events_.scalar("train/steps_per_second", step, static_cast<double>(step - rate_step_) / seconds);
  rate_step_ = step;
  rate_begin_ = now;
}

void Recorder::evaluation(int64_t step, int64_t epoch, const std::string& split, double loss,
                          std::span<const double> metrics) {
  rows_.row(step, epoch, split, loss, metrics);
  events_.scalar(split + "/loss", step, loss);
  std::string line = fmt::format("epoch {}  step {}  {} loss {:.6g}", epoch + 1, step, split, loss);
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    events_.scalar(split + "/" + metrics_[i], step, metrics[i]);
    line += fmt::format("  {} {:.6g}", metrics_[i], metrics[i]);
  }
  events_.flush();
  if (split == "val" && !metrics.empty()) {
    shown_.metric = "val " + metrics_[0];
    shown_.value = metrics[0];
  }
  if (progress_) progress_->say(line);
  // The next row's rate is that of training alone.
  rate_step_ = step;
  rate_begin_ = std::chrono::steady_clock::now();
}

void Recorder::poles(int64_t step, std::size_t layer, double radius, double min_abs_denominator, int64_t unstable) {
  events_.scalar(fmt::format("layer_{}/pole_radius", layer), step, radius);
  events_.scalar(fmt::format("layer_{}/min_abs_denominator", layer), step, min_abs_denominator);
  events_.scalar(fmt::format("layer_{}/unstable_denominators", layer), step, static_cast<double>(unstable));
  if (unstable > 0 && progress_) {
    progress_->say(
        fmt::format("step {}  layer {}: {} unstable denominators, pole radius {:.6g}", step, layer, unstable, radius));
  }
}

void Recorder::status(RunState state, int64_t step, int64_t epoch, double seconds, std::optional<double> best) {
  rows_.sync();
  events_.flush();
  write_status(folder_, {state, step, epoch, seconds, selection_, best, shown_.steps});
}

}  // namespace rtf::train
