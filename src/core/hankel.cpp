#include "core/hankel.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/fft.h"
#include "rtf/random.h"

namespace rtf {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double epsilon = std::numeric_limits<double>::epsilon();

// Up to this size all eigenvectors are cheaper than a few.
constexpr Index dense_size = 160;

// After this many steps from a fresh start an eigenvalue that was missed, a copy of one that was found, would show.
constexpr Index probe_steps = 12;

// One column: the Hankel matrix, which is symmetric, so its singular values are moduli of eigenvalues. Several: the sum
// of the squares of theirs, whose eigenvalues are the squares of those of the stacked matrix.
class HankelOperator {
 public:
  HankelOperator(const MatrixXd& samples, Index size_)
      : size(size_),
        fft_(get_fft<double>(FftKind::real, FftLanes::one, good_size(static_cast<std::size_t>(2 * size_ - 1)),
                             instruction_set())),
        space_(FftRow<double>::elements(*fft_)),
        spectra_(static_cast<Index>(fft_->length), samples.cols()) {
    for (Index c = 0; c < samples.cols(); ++c) {
      FftRow<double> row(*fft_, space_.data());
      load(row, samples.col(c).head(std::min(samples.rows(), 2 * size - 1)));
      spectra_.col(c) = Eigen::Map<const VectorXd>(row.data, spectra_.rows());
    }
  }

  Index channels() const { return spectra_.cols(); }

  VectorXd operator()(const VectorXd& x) {
    if (channels() == 1) return product(x, 0);
    VectorXd sum = VectorXd::Zero(size);
    for (Index c = 0; c < channels(); ++c) sum += product(product(x, c), c);
    return sum;
  }

  const Index size;

 private:
  void load(FftRow<double>& row, const VectorXd& x) const {
    std::copy(x.begin(), x.end(), row.data);
    std::fill(row.data + x.size(), row.data + fft_->length, 0.0);
    row.forward();
  }

  // y_i = sum_j h_{i+j} x_j, a correlation: spectrum of h times the conjugate of that of x.
  VectorXd product(const VectorXd& x, Index channel) {
    FftRow<double> row(*fft_, space_.data());
    load(row, x);
    const double* h = spectra_.col(channel).data();
    const std::size_t n = fft_->length;
    row.data[0] *= h[0];
    for (std::size_t i = 1; i + 1 < n; i += 2) {
      const double re = h[i] * row.data[i] + h[i + 1] * row.data[i + 1];
      row.data[i + 1] = h[i + 1] * row.data[i] - h[i] * row.data[i + 1];
      row.data[i] = re;
    }
    if (n % 2 == 0) row.data[n - 1] *= h[n - 1];
    row.backward();
    return Eigen::Map<const VectorXd>(row.data, size) / static_cast<double>(n);
  }

  std::shared_ptr<const Fft<double>> fft_;
  std::vector<double> space_;
  MatrixXd spectra_;
};

// Eigenvalues by falling modulus.
std::vector<Index> by_modulus(const VectorXd& values) {
  std::vector<Index> order(static_cast<std::size_t>(values.size()));
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](Index i, Index j) { return std::abs(values[i]) > std::abs(values[j]); });
  return order;
}

struct Eigenpairs {
  VectorXd values;
  MatrixXd vectors;
};

Eigenpairs leading(const VectorXd& values, const MatrixXd& vectors, Index count) {
  const std::vector<Index> order = by_modulus(values);
  Eigenpairs result{VectorXd(count), MatrixXd(vectors.rows(), count)};
  for (Index i = 0; i < count; ++i) {
    result.values[i] = values[order[static_cast<std::size_t>(i)]];
    result.vectors.col(i) = vectors.col(order[static_cast<std::size_t>(i)]);
  }
  return result;
}

Eigenpairs dense_eigenpairs(HankelOperator& H, Index count) {
  MatrixXd matrix(H.size, H.size);
  for (Index i = 0; i < H.size; ++i) matrix.col(i) = H(VectorXd::Unit(H.size, i));
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(matrix);
  return leading(solver.eigenvalues(), solver.eigenvectors(), count);
}

// Lanczos with every vector kept orthogonal to all others. The basis may consist of several chains, each from a random
// start orthogonal to those before: where a chain ends in an invariant subspace, and once more when all is found,
// because one chain sees a multiple eigenvalue only once.
class Lanczos {
 public:
  explicit Lanczos(HankelOperator& H) : H_(H), basis_(H.size, std::min<Index>(H.size, 64)) {}

  Eigenpairs run(Index count) {
    start_chain();
    Index target = std::min(H_.size, 2 * count + 20);
    for (Index probed = -1;;) {
      while (steps_ < target) step();
      const MatrixXd ritz = solve();
      const bool complete = steps_ == H_.size;
      if (!complete && !converged(ritz, count)) {
        target = std::min(H_.size, steps_ + std::max<Index>(steps_ / 4, 16));
        continue;
      }
      // Done when a fresh chain has nothing to add to the leading values.
      if (complete || (probed >= 0 && !any_from(ritz, probed, count))) {
        Eigenpairs found = leading(values_, ritz, count);
        found.vectors = basis_.leftCols(steps_) * found.vectors;
        return found;
      }
      probed = steps_;
      off_diagonal_.back() = 0;
      start_chain();
      target = std::min(H_.size, steps_ + probe_steps);
    }
  }

 private:
  // Adds vector `steps_`, the next of its chain: what is left of H q orthogonal to all.
  void step() {
    VectorXd next = H_(basis_.col(steps_));
    diagonal_.push_back(basis_.col(steps_).dot(next));
    largest_ = std::max(largest_, next.norm());
    ++steps_;
    if (steps_ == H_.size) return;
    orthogonalize(next);
    const double norm = next.norm();
    off_diagonal_.push_back(norm > 10 * epsilon * largest_ ? norm : 0.0);
    if (off_diagonal_.back() == 0) return start_chain();
    push(next / norm);
  }

  void start_chain() {
    VectorXd next(H_.size);
    do {
      for (double& value : next) value = random_.normal(drawn_++);
      orthogonalize(next);
    } while (!(next.norm() > 1e-8));
    push(next.normalized());
  }

  // Classical Gram-Schmidt twice.
  void orthogonalize(VectorXd& x) const {
    for (int pass = 0; pass < 2; ++pass) {
      const auto known = basis_.leftCols(steps_);
      x.noalias() -= known * (known.transpose() * x).eval();
    }
  }

  void push(const VectorXd& x) {
    if (steps_ == basis_.cols()) basis_.conservativeResize(Eigen::NoChange, std::min(H_.size, 2 * basis_.cols()));
    basis_.col(steps_) = x;
  }

  // Eigenvectors of the tridiagonal matrix; its eigenvalues into values_.
  MatrixXd solve() {
    Eigen::SelfAdjointEigenSolver<MatrixXd> solver;
    const Eigen::Map<const VectorXd> diagonal(diagonal_.data(), steps_);
    const Eigen::Map<const VectorXd> off_diagonal(off_diagonal_.data(), steps_ - 1);
    solver.computeFromTridiagonal(diagonal, off_diagonal);
    values_ = solver.eigenvalues();
    return solver.eigenvectors();
  }

  // The residual of a Ritz pair is its last component times what led out of the basis.
  bool converged(const MatrixXd& ritz, Index count) const {
    const std::vector<Index> order = by_modulus(values_);
    for (Index i = 0; i < count; ++i) {
      const double residual = off_diagonal_.back() * std::abs(ritz(steps_ - 1, order[static_cast<std::size_t>(i)]));
      if (!(residual <= 1e-13 * largest_)) return false;
    }
    return true;
  }

  // Whether one of the leading vectors lies in the basis from `first` on.
  bool any_from(const MatrixXd& ritz, Index first, Index count) const {
    const std::vector<Index> order = by_modulus(values_);
    for (Index i = 0; i < count; ++i)
      if (ritz.col(order[static_cast<std::size_t>(i)]).tail(steps_ - first).squaredNorm() > 0.5) return true;
    return false;
  }

  HankelOperator& H_;
  MatrixXd basis_;
  Index steps_ = 0;
  std::vector<double> diagonal_, off_diagonal_;
  VectorXd values_;
  double largest_ = 0;
  Random random_{0};
  std::uint64_t drawn_ = 0;
};

}  // namespace

HankelSpectrum hankel_spectrum(const MatrixXd& samples, Index size, Index count) {
  HankelOperator H(samples, size);
  count = std::min(count, size);
  const bool dense = size <= dense_size || (size <= 4 * count && size <= 1024);
  const Eigenpairs pairs = dense ? dense_eigenpairs(H, count) : Lanczos(H).run(count);
  HankelSpectrum result{pairs.values.cwiseAbs(), pairs.vectors};
  if (samples.cols() > 1) result.values = result.values.cwiseSqrt();
  return result;
}

}  // namespace rtf
