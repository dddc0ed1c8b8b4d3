// rtf bench step: how fast a model file runs sample by sample, and how evenly. `rtf bench table` and `lra` are
// rtf-train's.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <type_traits>

#include "common.h"
#include "entry.h"
#include "rtf/instruction_set.h"
#include "rtf/random.h"
#include "rtf/stream.h"
#include "rtf/workspace.h"
#include "training.h"

namespace rtf::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions : CommonOptions {
  std::size_t steps = 20000;
  bool json = false;
};

struct StepFigures {
  double steps_per_second = 0, p50 = 0, p99 = 0, p999 = 0, max = 0;  // latencies in seconds
  // Of the steps during which the system gave the core to nothing else: the tail that is the model's own.
  double undisturbed_p999 = 0;
  std::size_t disturbed = 0, page_faults = 0;
  std::size_t weight_bytes = 0, state_bytes = 0;
};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// The smallest value that `share` of the sorted values do not exceed.
double percentile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

rusage usage_of(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  return usage;
}

// One stream of random samples, or tokens, each step timed.
template <class T, class In>
StepFigures measure(const stream::Model<T>& model, std::size_t steps) {
  constexpr std::size_t kept = 1024;
  const std::size_t inputs = model.inputs(), vocabulary = model.architecture().vocabulary;
  const Random random(1);
  std::vector<In> samples(kept * inputs);
  for (std::size_t i = 0; i < samples.size(); ++i)
    samples[i] = static_cast<In>(
        std::is_integral_v<In> ? std::floor(random.uniform(i) * static_cast<double>(vocabulary)) : random.normal(i));
  stream::Streams<T> streams(model, 1);
  const std::size_t one = streams.join();
  const bool pair = model.architecture().decoder == Architecture::Decoder::pair;
  std::vector<T> out(pair ? 0 : model.outputs());
  std::vector<double> seconds(steps), undisturbed(steps);  // touched before the clock runs
  std::size_t count = 0;
  long switches = 0;
  const auto step = [&](std::size_t i) {
    const Clock::time_point from = Clock::now();
    streams.step({&one, 1}, std::span<const In>(samples).subspan(i % kept * inputs, inputs), std::span<T>(out));
    seconds[i % steps] = seconds_since(from);
    const long now = usage_of(RUSAGE_THREAD).ru_nivcsw;
    if (now == switches) undisturbed[count++] = seconds[i % steps];
    switches = now;
  };
  for (std::size_t i = 0; i < std::max<std::size_t>(steps / 10, 100); ++i, count = 0) step(i);
  const long faults = usage_of(RUSAGE_THREAD).ru_minflt;
  for (std::size_t i = 0; i < steps; ++i) step(i);
  StepFigures figures;
  figures.page_faults = static_cast<std::size_t>(usage_of(RUSAGE_THREAD).ru_minflt - faults);
  undisturbed.resize(count);
  figures.disturbed = steps - count;
  figures.steps_per_second = static_cast<double>(steps) / std::accumulate(seconds.begin(), seconds.end(), 0.0);
  std::sort(seconds.begin(), seconds.end());
  std::sort(undisturbed.begin(), undisturbed.end());
  figures.p50 = percentile(seconds, 0.5);
  figures.p99 = percentile(seconds, 0.99);
  figures.p999 = percentile(seconds, 0.999);
  figures.max = seconds.back();
  figures.undisturbed_p999 = undisturbed.empty() ? figures.p999 : percentile(undisturbed, 0.999);
  figures.weight_bytes = model.weight_bytes();
  figures.state_bytes = model.state_bytes();
  return figures;
}

// --- The bound: the weights read once, and nothing done with them ----------------------------------------------------

// Sums in as many registers as hide the latency; `count` is a multiple of their number.
constexpr std::size_t sums = 64;
[[gnu::always_inline]] inline std::uint64_t read_words(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sum[sums] = {};
  for (std::size_t i = 0; i < count; i += sums)
    for (std::size_t k = 0; k < sums; ++k) sum[k] ^= words[i + k];
  return std::accumulate(sum, sum + sums, std::uint64_t{0});
}

// As wide as the runtime's own loads, or the bound would be none.
using ReadWords = std::uint64_t (*)(const std::uint64_t*, std::size_t);
std::uint64_t read_portable(const std::uint64_t* words, std::size_t count) { return read_words(words, count); }
#if defined(__x86_64__)
[[gnu::target("avx2")]] std::uint64_t read_v3(const std::uint64_t* words, std::size_t count) {
  return read_words(words, count);
}
[[gnu::target("avx512f,prefer-vector-width=512")]] std::uint64_t read_v4(const std::uint64_t* words,
                                                                         std::size_t count) {
  return read_words(words, count);
}
ReadWords reader() {
  if (instruction_set() == InstructionSet::v4) return read_v4;
  return instruction_set() == InstructionSet::v3 ? read_v3 : read_portable;
}
#else
ReadWords reader() { return read_portable; }
#endif

// How fast this core reads as many bytes as the weights have, again and again: the best of some stretches.
double bytes_per_second(std::size_t bytes) {
  const std::size_t count = (bytes / 8 / sums + 1) * sums;
  const Workspace memory(8 * count);
  auto* words = reinterpret_cast<std::uint64_t*>(memory.data());
  std::fill_n(words, count, 1);
  const ReadWords read = reader();
  double best = 0;
  for (int stretch = 0; stretch < 10; ++stretch) {
    std::size_t passes = 0;
    const Clock::time_point begin = Clock::now();
    do {
      for (int pass = 0; pass < 16; ++pass, ++passes)
        words[passes % count] = read(words, count);  // none can be left out
    } while (seconds_since(begin) < 0.02);
    best = std::max(best, static_cast<double>(8 * count * passes) / seconds_since(begin));
  }
  return best;
}

void print(const BenchOptions& options, const ModelFile& file, const StepFigures& f) {
  const Architecture& a = file.architecture;
  const std::string precision = name(file.precision);
  const std::string weights = !file.weights ? precision : file.weights == DataType::bf16 ? "bf16" : "int8";
  const double bandwidth = bytes_per_second(f.weight_bytes), bound = bandwidth / static_cast<double>(f.weight_bytes);
  const auto peak = static_cast<std::uint64_t>(usage_of(RUSAGE_SELF).ru_maxrss) * 1024;
  if (options.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"layers", a.layers},
                                              {"channels", a.channels},
                                              {"precision", precision},
                                              {"weights", weights},
                                              {"steps", options.steps},
                                              {"steps_per_second", f.steps_per_second},
                                              {"p50", f.p50},
                                              {"p99", f.p99},
                                              {"p99.9", f.p999},
                                              {"max", f.max},
                                              {"disturbed_steps", f.disturbed},
                                              {"undisturbed_p99.9", f.undisturbed_p999},
                                              {"page_faults", f.page_faults},
                                              {"weight_bytes", f.weight_bytes},
                                              {"state_bytes", f.state_bytes},
                                              {"peak_bytes", peak},
                                              {"read_bytes_per_second", bandwidth},
                                              {"bound_steps_per_second", bound},
                                              {"share_of_bound", f.steps_per_second / bound}}
                           .dump());
    return;
  }
  const auto micro = [](double seconds) { return fmt::format("{:.2f} us", 1e6 * seconds); };
  const auto kilo = [](double bytes) { return fmt::format("{:.1f} kB", bytes / 1e3); };
  fmt::print("{}: {} layers of {} channels, {}{}, {} steps of one stream on one core\n", options.filter, a.layers,
             a.channels, precision, file.weights ? ", weights in " + weights : "", options.steps);
  fmt::print("{}",
             table({
                 {"steps a second", fmt::format("{:.0f}", f.steps_per_second)},
                 {"p50", micro(f.p50)},
                 {"p99", micro(f.p99)},
                 {"p99.9", fmt::format("{}, {:.2f} times p50", micro(f.p999), f.p999 / f.p50)},
                 {"max", micro(f.max)},
                 {"disturbed steps", fmt::format("{}; p99.9 of the others {}, {:.2f} times p50", f.disturbed,
                                                 micro(f.undisturbed_p999), f.undisturbed_p999 / f.p50)},
                 {"page faults", fmt::format("{}", f.page_faults)},
                 {"weights", kilo(static_cast<double>(f.weight_bytes))},
                 {"state of a stream", kilo(static_cast<double>(f.state_bytes))},
                 {"memory of the process", kilo(static_cast<double>(peak))},
                 {"weights alone are read", fmt::format("{:.1f} GB/s: at most {:.0f} steps a second, of which "
                                                        "{:.0f} % are reached",
                                                        bandwidth / 1e9, bound, 100 * f.steps_per_second / bound)},
             }));
}

template <class T>
StepFigures measure_file(const BenchOptions& options, const ModelFile& file) {
  const stream::Model<T> model = naming(options.filter, [&] { return stream::Model<T>(file); });
  return file.architecture.vocabulary > 0 ? measure<T, std::int64_t>(model, options.steps)
                                          : measure<T, T>(model, options.steps);
}

void run(const BenchOptions& options) {
  require_memory(2 * static_cast<double>(options.steps), fmt::format("the times of {} steps", options.steps));
  const ModelFile file = read_model(options.filter);
  if (file.architecture.bidirectional)
    throw Error(ErrorCode::unsupported, "bench",
                options.filter + ": a bidirectional model sees the whole sequence: it has no step");
  print(options, file,
        file.precision == DataType::f32 ? measure_file<float>(options, file) : measure_file<double>(options, file));
}

}  // namespace

void add_bench(CLI::App& app, char** argv) {
  CLI::App& command = *app.add_subcommand("bench", bench_description);
  add_command_flags(
      command,
      "  rtf bench step model.safetensors\n"
      "  rtf bench table latency\n"
      "  rtf bench lra --device cpu --tasks image --layers rtf,s4 --orders 4,64 --repeats 5 train.batch=2");
  command.require_subcommand(1);
  CLI::App& step = *command.add_subcommand("step", "A model file run sample by sample: steps a second and latencies");
  auto options = std::make_shared<BenchOptions>();
  step.add_option("MODEL", options->filter, "model file, written by `rtf export`")->required()->type_name("");
  add_count(step, "--steps", options->steps, "steps to time (default 20000)");
  step.add_flag("--json", options->json, "print the figures as JSON: seconds and bytes");
  add_command_flags(
      step,
      "  rtf export runs/copying -o model.safetensors\n"
      "  rtf bench step model.safetensors\n"
      "One stream on one core: steps a second; the latencies that 50, 99 and 99.9 % of the steps do not\n"
      "exceed, and the longest; how many steps the system interrupted, and the p99.9 of the others; page\n"
      "faults; the bytes of weights, of a saved state and of the process; and how fast this core reads as\n"
      "many bytes as the weights have, which bounds the steps a second.");
  step.callback([options] { run(*options); });
  for (const TrainingCommand& served : bench_commands)
    serve_by_training(*command.add_subcommand(served.name, served.description), argv);
}

}  // namespace rtf::cli
