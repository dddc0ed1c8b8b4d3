// rtf bench table: the paper's latency and memory tables, measured here, beside what it printed.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/InferenceMode.h>

#include <cstdio>
#include <memory>

#include "device_timing.h"
#include "entry.h"
#include "rtf/error.h"
#include "rtf_torch/operators.h"
#include "train/device.h"
#include "train/plain_errors.h"
#include "train/table.h"
#include "train_common.h"

namespace rtf::cli {
namespace {

struct BenchOptions {
  std::string table, device = "cuda";
  int64_t batch = 16, longest = int64_t{1} << 17;
};

// A row of the paper: what it printed for S5 and for its own layer, by length from `first_length` on.
struct PaperRow {
  double size;  // latency: n / channels; memory: log2 n
  int first_length;
  std::vector<const char*> s5, rtf;
};

constexpr int64_t latency_channels = 128, memory_channels = 1024;

// ms on an H100; the batch is not stated.
const std::vector<PaperRow> latency_rows = {
    {0.25, 11, {"0.126", "0.214", "0.401", "0.798", "1.508", "2.980", "5.805"}, {}},
    {0.5, 11, {"0.200", "0.336", "0.730", "1.396", "2.737", "5.364", "10.384"}, {}},
    {1,
     11,
     {"0.328", "0.672", "1.248", "2.582", "4.906", "9.232", "18.184"},
     {"0.102", "0.373", "0.770", "1.558", "3.443", "8.345", "17.824"}},
    {2,
     11,
     {"0.623", "1.194", "2.317", "4.566", "8.573", "17.137", "34.219"},
     {"0.104", "0.385", "0.793", "1.610", "3.543", "8.547", "18.220"}},
    {4,
     11,
     {"1.156", "2.312", "4.403", "8.334", "16.830", "33.545", "67.033"},
     {"0.104", "0.372", "0.777", "1.564", "3.451", "8.372", "17.895"}},
    {8,
     11,
     {"2.214", "4.363", "8.328", "16.438", "33.714", "67.336", "137.632"},
     {"0.102", "0.372", "0.777", "1.577", "3.473", "8.402", "17.963"}},
};

// MiB as printed up to 1,000; past it the paper gives thousandths of a GiB.
const std::vector<PaperRow> memory_rows = {
    {8, 12, {"178", "266", "459", "794.01", "1510", "3010"}, {"230", "454.04", "902", "1760", "3510", "7010"}},
    {9, 12, {"192", "288.01", "480", "864.01", "1590", "3090"}, {"232.04", "456.04", "904", "1760", "3510", "7010"}},
    {10, 12, {"220", "332", "592", "1140", "2140", "4270"}, {"236", "460.04", "908", "1760", "3510", "7010"}},
    {11, 12, {"308", "544.02", "1030", "1780", "3530", "7030"}, {"244", "468.04", "916", "1770", "3520", "7020"}},
    {12, 13, {"960.04", "1690", "3310", "6560", "13060"}, {"484.04", "932", "1790", "3540", "7040"}},
    {13, 14, {"3130", "6130", "12130", "24130"}, {"964", "1820", "3570", "7070"}},
    {14, 15, {"11750", "23250", "46250"}, {"1880", "3630", "7130"}},
    {15, 16, {"49500", "OOM"}, {"3750", "7250"}},
    {16, 17, {"OOM"}, {"7500"}},
};

std::string power(int log) { return "2^" + std::to_string(log); }

std::string number(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

// Algorithm 1's kernel, the convolution, and the product by a square matrix that the paper adds for parity with S5.
class MixedLayer {
 public:
  MixedLayer(c10::Device device, int64_t batch, int64_t length, int64_t channels, int64_t order) : length_(length) {
    const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
    a_ = at::randn({channels, order}, options);
    a_.div_(a_.abs().sum(1, true)).mul_(0.9);  // sum |a| < 1: stable
    b_ = at::randn({channels, order}, options);
    h0_ = at::randn({channels}, options);
    mix_ = at::randn({channels, channels}, options);
    u_ = at::randn({batch, channels, length}, options).transpose(1, 2);
  }
  at::Tensor operator()() const {
    const at::Tensor y = ops::convolve(u_, ops::kernel(a_, b_, h0_, length_)).transpose(1, 2);
    return at::bmm(mix_.expand({y.size(0), -1, -1}), y);
  }
  int64_t bytes() const {
    int64_t sum = 0;
    for (const at::Tensor& one : {a_, b_, h0_, mix_, u_}) sum += static_cast<int64_t>(one.nbytes());
    return sum;
  }

 private:
  int64_t length_;
  at::Tensor a_, b_, h0_, mix_, u_;
};

// Three stretches are enough of what takes long.
constexpr TimingOptions timing{.repeats = 100, .warm_ups = 10, .most_milliseconds = 200};

std::string latency(const BenchOptions& options, c10::Device device, int64_t length, int64_t order) {
  const MixedLayer layer(device, options.batch, length, latency_channels, order);
  return number(median_milliseconds_of_graph(device, timing, [&] { layer(); }), 3);
}

std::string memory(c10::Device device, int64_t length, int64_t order) {
  c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(device.type());
  const auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const MixedLayer layer(device, 1, length, memory_channels, order);
  layer();
  train::synchronize(device);
  const int64_t others = allocator->getDeviceStats(device.index()).allocated_bytes[all].current - layer.bytes();
  allocator->resetPeakStats(device.index());
  layer();
  train::synchronize(device);
  const int64_t peak = allocator->getDeviceStats(device.index()).allocated_bytes[all].peak - others;
  allocator->emptyCache();
  return number(static_cast<double>(peak) / (1 << 20), 0);
}

void run(const BenchOptions& options) {
  const bool is_latency = options.table == "latency";
  const c10::Device device = train::use_device(options.device, /*deterministic=*/false);
  if (!is_latency && device.is_cpu())
    throw Error(ErrorCode::argument, "bench",
                "the memory table is measured on a GPU; --device cpu has the latency table");
  const c10::InferenceMode without_gradients;
  at::globalContext().setAllowTF32CuBLAS(true);  // as in the paper's JAX
  const auto& rows = is_latency ? latency_rows : memory_rows;
  const int first = rows.front().first_length, last = first + static_cast<int>(rows.front().s5.size()) - 1;
  std::vector<std::string> header = {is_latency ? "n / channels" : "n"};
  for (int log = first; log <= last && int64_t{1} << log <= options.longest; ++log)
    header.push_back("L = " + power(log));
  train::Table table(header);
  for (const PaperRow& row : rows) {
    const auto order =
        is_latency ? static_cast<int64_t>(row.size * latency_channels) : int64_t{1} << static_cast<int>(row.size);
    std::vector<std::string> cells = {is_latency ? number(row.size, row.size < 1 ? 2 : 0)
                                                 : power(static_cast<int>(row.size))};
    for (int log = first; cells.size() < header.size(); ++log) {
      const int index = log - row.first_length;
      if (index < 0) {
        cells.emplace_back("");
        continue;
      }
      const int64_t length = int64_t{1} << log;
      std::string ours = "OOM";
      try {
        ours = is_latency ? latency(options, device, length, order) : memory(device, length, order);
      } catch (const c10::OutOfMemoryError&) {  // the table says so, as the paper's does
      }
      const auto at = static_cast<std::size_t>(index);
      cells.push_back(ours + " | " + (row.rtf.empty() ? "-" : row.rtf[at]) + " | " + row.s5[at]);
    }
    table.row(std::move(cells));
  }
  if (is_latency) {
    std::printf(
        "Forward pass in ms, %lld channels, channel mixing included: ours on %s at batch %lld | the paper's "
        "RTF | its S5 "
        "(H100, batch not stated)\n",
        static_cast<long long>(latency_channels), options.device.c_str(), static_cast<long long>(options.batch));
  } else {
    std::printf(
        "Peak memory of a forward pass in MiB, batch 1, %lld channels, channel mixing included: ours on %s | the "
        "paper's "
        "RTF | its S5 (A100; from 1,000 on in GiB / 1000)\n",
        static_cast<long long>(memory_channels), options.device.c_str());
  }
  std::fputs(table.text().c_str(), stdout);
}

}  // namespace

void add_bench_table(CLI::App& command) {
  CLI::App& table = add_training_command(command, "table",
                                         "  rtf bench table latency\n"
                                         "  rtf bench table memory\n"
                                         "  rtf bench table latency --device cpu --batch 1 --longest 8192");
  auto options = std::make_shared<BenchOptions>();
  table.add_option("TABLE", options->table, "latency or memory")
      ->required()
      ->check(CLI::IsMember({"latency", "memory"}))
      ->type_name("");
  add_device(table, options->device);
  table.add_option("--batch", options->batch, "sequences at a time, latency (default 16)")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  table.add_option("--longest", options->longest, "no longer sequences than this (default 131072)")
      ->check(CLI::Range(int64_t{2048}, int64_t{1} << 17))
      ->type_name("N");
  table.callback([options] {
    train::plain_errors("bench",
                        {"not enough memory for these sizes; a smaller --batch or --longest needs less",
                         "the device has not enough memory for these sizes; a smaller --batch or --longest needs less"},
                        [&] { run(*options); });
  });
}

}  // namespace rtf::cli
