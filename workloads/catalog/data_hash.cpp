#include "workloads/catalog/data_hash.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "harness/error.h"

namespace steplens {
namespace {

using Digest = std::array<unsigned char, 32>;
using EvpContext = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

EvpContext new_context() {
  EvpContext context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  SL_CHECK(EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1);
  return context;
}

template <typename T>
void update(EVP_MD_CTX* context, std::span<const T> values) {
  SL_CHECK(EVP_DigestUpdate(context, values.data(), values.size_bytes()) == 1);
}

Digest finish(EVP_MD_CTX* context) {
  Digest digest{};
  SL_CHECK(EVP_DigestFinal_ex(context, digest.data(), nullptr) == 1);
  return digest;
}

std::string hex_of(const Digest& digest) {
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace

struct DataHash::Context {
  EvpContext evp = new_context();
};

DataHash::DataHash() : context_(std::make_unique<Context>()) {}
DataHash::~DataHash() = default;

void DataHash::add(const StepBatch& step) {
  for (const MicroBatch& batch : step.micro_batches) {
    const auto length = static_cast<std::size_t>(batch.row_length);
    for (std::size_t at = 0; at < batch.inputs.size(); at += length) {
      update(context_->evp.get(), std::span(batch.inputs).subspan(at, length));
      update(context_->evp.get(), std::span(batch.targets).subspan(at, length));
    }
  }
}

std::string DataHash::hex() const {
  const EvpContext copy = new_context();
  SL_CHECK(EVP_MD_CTX_copy_ex(copy.get(), context_->evp.get()) == 1);
  return hex_of(finish(copy.get()));
}

std::string data_set_hash(const TokenFile& file, std::span<const std::int64_t> span_offsets,
                          std::int64_t sequence_length) {
  std::vector<Digest> digests;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(sequence_length + 1));
  for (const std::int64_t offset : span_offsets) {
    file.copy(offset, tokens);
    const EvpContext context = new_context();
    update(context.get(), std::span(&offset, 1));
    update(context.get(), std::span<const std::int32_t>(tokens));
    digests.push_back(finish(context.get()));
  }
  std::ranges::sort(digests);
  const EvpContext context = new_context();
  for (const Digest& digest : digests) {
    update(context.get(), std::span<const unsigned char>(digest));
  }
  return hex_of(finish(context.get()));
}

}  // namespace steplens
