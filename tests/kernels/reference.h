#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

/// The operators of kernels/ in double, written from their formulas and nothing else.
namespace steplens::reference {

using Values = std::vector<double>;

inline std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

struct RmsNormed {
  Values r;
  Values rstd;
  Values y;
};

/// `round` is applied to r: what its storage does to it. An empty `residual`: none.
inline RmsNormed rms_norm_forward(const Values& x, const Values& residual, const Values& weight,
                                  double epsilon, const std::function<double(double)>& round = {}) {
  const std::size_t C = weight.size();
  const std::size_t N = x.size() / C;
  RmsNormed result{.r = x, .rstd = Values(N), .y = Values(x.size())};
  for (std::size_t n = 0; n < N; ++n) {
    double sum = 0.0;
    for (std::size_t c = 0; c < C; ++c) {
      double& r = result.r[n * C + c];
      if (!residual.empty()) r += residual[n * C + c];
      if (!residual.empty() && round) r = round(r);
      sum += r * r;
    }
    result.rstd[n] = 1.0 / std::sqrt(sum / static_cast<double>(C) + epsilon);
    for (std::size_t c = 0; c < C; ++c) {
      result.y[n * C + c] = result.r[n * C + c] * result.rstd[n] * weight[c];
    }
  }
  return result;
}

struct RmsNormGradients {
  Values dr;
  Values dweight;
};

inline RmsNormGradients rms_norm_backward(const Values& dy, const Values& r, const Values& rstd,
                                          const Values& weight, const Values& dr_in) {
  const std::size_t C = weight.size();
  const std::size_t N = r.size() / C;
  RmsNormGradients result{.dr = Values(r.size()), .dweight = Values(C)};
  for (std::size_t n = 0; n < N; ++n) {
    double dot = 0.0;
    for (std::size_t c = 0; c < C; ++c) {
      const std::size_t i = n * C + c;
      dot += dy[i] * weight[c] * r[i];
      result.dweight[c] += dy[i] * r[i] * rstd[n];
    }
    const double scale = dot / static_cast<double>(C) * rstd[n] * rstd[n] * rstd[n];
    for (std::size_t c = 0; c < C; ++c) {
      const std::size_t i = n * C + c;
      result.dr[i] = dy[i] * weight[c] * rstd[n] - r[i] * scale;
      if (!dr_in.empty()) result.dr[i] += dr_in[i];
    }
  }
  return result;
}

inline Values swiglu_forward(const Values& gate_up, std::int64_t F) {
  const std::size_t width = at(F);
  const std::size_t N = gate_up.size() / (2 * width);
  Values y(N * width);
  for (std::size_t n = 0; n < N; ++n) {
    for (std::size_t c = 0; c < width; ++c) {
      const double gate = gate_up[2 * n * width + c];
      y[n * width + c] = gate / (1.0 + std::exp(-gate)) * gate_up[(2 * n + 1) * width + c];
    }
  }
  return y;
}

inline Values swiglu_backward(const Values& dy, const Values& gate_up, std::int64_t F) {
  const std::size_t width = at(F);
  const std::size_t N = gate_up.size() / (2 * width);
  Values gradient(gate_up.size());
  for (std::size_t n = 0; n < N; ++n) {
    for (std::size_t c = 0; c < width; ++c) {
      const double gate = gate_up[2 * n * width + c];
      const double up = gate_up[(2 * n + 1) * width + c];
      const double s = 1.0 / (1.0 + std::exp(-gate));
      const double incoming = dy[n * width + c];
      gradient[2 * n * width + c] = incoming * up * s * (1.0 + gate * (1.0 - s));
      gradient[(2 * n + 1) * width + c] = incoming * gate * s;
    }
  }
  return gradient;
}

inline double rope_angle(std::int64_t t, std::int64_t j, std::int64_t D, double base = 10000.0) {
  return static_cast<double>(t) *
         std::pow(base, -2.0 * static_cast<double>(j) / static_cast<double>(D));
}

/// Rotates x (rows, heads, D), row n being token n % T, by `sign` times its angle.
inline Values rope(const Values& x, std::int64_t T, std::int64_t heads, std::int64_t D,
                   double sign) {
  Values out(x.size());
  const std::int64_t num_rows = static_cast<std::int64_t>(x.size()) / (heads * D);
  for (std::int64_t n = 0; n < num_rows; ++n) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t j = 0; j < D / 2; ++j) {
        const double angle = sign * rope_angle(n % T, j, D);
        const std::size_t low = at((n * heads + h) * D + j);
        const std::size_t high = low + at(D / 2);
        out[low] = x[low] * std::cos(angle) - x[high] * std::sin(angle);
        out[high] = x[high] * std::cos(angle) + x[low] * std::sin(angle);
      }
    }
  }
  return out;
}

inline Values embedding_forward(const Values& table, std::span<const std::int64_t> tokens,
                                std::int64_t C) {
  Values y;
  for (const std::int64_t token : tokens) {
    for (std::int64_t c = 0; c < C; ++c) y.push_back(table[at(token * C + c)]);
  }
  return y;
}

inline Values embedding_backward(const Values& dy, std::span<const std::int64_t> tokens,
                                 std::int64_t C, std::int64_t V) {
  Values dtable(at(V * C));
  for (std::size_t n = 0; n < tokens.size(); ++n) {
    if (tokens[n] < 0 || tokens[n] >= V) continue;
    for (std::int64_t c = 0; c < C; ++c) dtable[at(tokens[n] * C + c)] += dy[n * at(C) + at(c)];
  }
  return dtable;
}

/// d(sum of seed * f(x)) / dx by central differences.
inline Values finite_differences(const std::function<Values(const Values&)>& f, Values x,
                                 const Values& seed, double step = 1e-5) {
  const auto loss = [&] {
    const Values y = f(x);
    double sum = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += seed[i] * y[i];
    return sum;
  };
  Values gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i];
    x[i] = kept + step;
    const double above = loss();
    x[i] = kept - step;
    const double below = loss();
    x[i] = kept;
    gradient[i] = (above - below) / (2.0 * step);
  }
  return gradient;
}

}  // namespace steplens::reference
