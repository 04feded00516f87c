#include "workloads/catalog/token_file.h"

#include <array>
#include <thread>

#include "tests/catalog/token_fixture.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace steplens {
namespace {

using testing::config_error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Tokens16 = std::vector<std::uint16_t>;
using Tokens32 = std::vector<std::uint32_t>;

class TokenFileTest : public testing::FolderTest {
 protected:
  std::string error_of_opening(const std::filesystem::path& path) const {
    return config_error_of([&] { const TokenFile file(path); });
  }

  // llm.c's format: 256 int32, then the tokens.
  template <typename T>
  std::filesystem::path write_with_header(std::int32_t magic, std::int32_t version,
                                          std::int32_t count, const std::vector<T>& tokens) const {
    std::vector<std::int32_t> header(256, 0);
    header[0] = magic;
    header[1] = version;
    header[2] = count;
    std::string bytes(reinterpret_cast<const char*>(header.data()), 1024);
    bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(T));
    return write("llmc.bin", bytes);
  }
};

RunConfig config_with(std::int64_t vocab_size, std::int64_t sequence_length) {
  RunConfig config;
  config.shape.vocab_size = vocab_size;
  config.sequence_length = sequence_length;
  return config;
}

TEST_F(TokenFileTest, TakesFileWithoutJsonAsUint16AndOneDocument) {
  // Little-endian: 0x0102 is stored as 02 01.
  const TokenFile file(write("raw.bin", std::string_view("\x02\x01\x05\x00\xff\xff", 6)));
  EXPECT_EQ(file.num_tokens(), 3);
  EXPECT_EQ(file.at(0), 258);
  EXPECT_EQ(file.at(1), 5);
  EXPECT_EQ(file.at(2), 65535);
  EXPECT_EQ(file.info().max_token, 65535);
  EXPECT_EQ(file.info().vocab_size, 65536);
  EXPECT_EQ(file.info().num_documents, 1);
  EXPECT_EQ(file.info().name, "raw");
  EXPECT_TRUE(file.document_ends().empty());
}

TEST_F(TokenFileTest, ReadsUint32AndDocumentEndsAsItsJsonSays) {
  const Tokens32 tokens = {7, 100000, 3, 9, 8, 9};
  const auto path = write_tokens("x.bin", tokens);
  write_info(path, tokens, 100001, 9);
  const TokenFile file(path);
  EXPECT_EQ(file.num_tokens(), 6);
  EXPECT_EQ(file.at(1), 100000);
  EXPECT_EQ(file.info().num_documents, 2);
  EXPECT_THAT(file.document_ends(), ElementsAre(3, 5));
}

TEST_F(TokenFileTest, CopiesPart) {
  const TokenFile file(write_tokens("x.bin", Tokens16{10, 11, 12, 13, 14}));
  std::array<std::int32_t, 3> out{};
  file.copy(2, out);
  EXPECT_THAT(out, ElementsAre(12, 13, 14));
}

TEST_F(TokenFileTest, GivesDocumentEndsToManyThreads) {
  Tokens16 tokens(10000, 1);
  for (std::size_t i = 99; i < tokens.size(); i += 100) tokens[i] = 2;
  tokens[0] = 3;
  const auto path = write_tokens("x.bin", tokens);
  write_info(path, tokens, 4, 2);
  const TokenFile file(path);
  std::array<std::size_t, 4> sizes{};
  {
    std::vector<std::jthread> threads;
    threads.reserve(sizes.size());
    for (std::size_t& size : sizes) {
      threads.emplace_back([&] { size = file.document_ends().size(); });
    }
  }
  EXPECT_THAT(sizes, ElementsAre(100, 100, 100, 100));
}

TEST_F(TokenFileTest, ReadsHeadersOfLlmC) {
  const TokenFile narrow(write_with_header(20240520, 1, 3, Tokens16{5, 6, 50256}));
  EXPECT_EQ(narrow.num_tokens(), 3);
  EXPECT_EQ(narrow.at(0), 5);
  EXPECT_EQ(narrow.info().max_token, 50256);
  const TokenFile wide(write_with_header(20240801, 7, 2, Tokens32{128000, 6}));
  EXPECT_EQ(wide.num_tokens(), 2);
  EXPECT_EQ(wide.at(0), 128000);
  EXPECT_EQ(wide.info().dtype, TokenType::kUint32);
}

TEST_F(TokenFileTest, RefusesDamagedHeadersOfLlmC) {
  EXPECT_THAT(error_of_opening(write_with_header(20240520, 1, 4, Tokens16{5, 6, 7})),
              HasSubstr("has 1030 bytes, but its header says 4 tokens, which is 1032 bytes"));
  EXPECT_THAT(error_of_opening(write_with_header(20240520, 3, 3, Tokens16{5, 6, 7})),
              HasSubstr("header version=3"));
  EXPECT_THAT(error_of_opening(write_with_header(20240520, 1, -1, Tokens16{5, 6, 7})),
              HasSubstr("header says -1 tokens"));
}

TEST_F(TokenFileTest, RefusesMissingEmptyAndOddFiles) {
  EXPECT_THAT(error_of_opening(folder_ / "none.bin"), HasSubstr("none.bin: cannot read: No such"));
  EXPECT_THAT(error_of_opening(write("empty.bin", "")), HasSubstr("empty.bin: is empty"));
  EXPECT_THAT(error_of_opening(write("odd.bin", "abc")),
              HasSubstr("has 3 bytes, no multiple of 2"));
  EXPECT_THAT(error_of_opening(write("one.bin", "ab")), HasSubstr("fewer than 2 tokens"));
  EXPECT_THAT(error_of_opening(folder_), HasSubstr("is not a file"));
  EXPECT_THAT(error_of_opening(write("x.json", "{}")), HasSubstr("name the .bin"));
}

TEST_F(TokenFileTest, RefusesSizeThatItsJsonDoesNotSay) {
  const auto path = write_tokens("x.bin", Tokens16{1, 2, 3});
  write_info(path, Tokens16{1, 2, 3, 4}, 5, {});
  EXPECT_THAT(error_of_opening(path),
              HasSubstr("6 bytes of tokens, but x.json says 4 tokens of uint16, which is 8 bytes"));
}

TEST_F(TokenFileTest, RefusesConstantsWhateverTheDocumentEnds) {
  EXPECT_THAT(error_of_opening(write_tokens("zero.bin", Tokens16(1000, 0))),
              HasSubstr("all tokens are equal"));
  const Tokens16 ended = {7, 7, 9, 7, 7, 7, 9};
  const auto path = write_tokens("ended.bin", ended);
  write_info(path, ended, 10, 9);
  EXPECT_THAT(error_of_opening(path), HasSubstr("all tokens are equal"));
  const Tokens16 only_ends = {9, 9, 9};
  const auto ends_path = write_tokens("ends.bin", only_ends);
  write_info(ends_path, only_ends, 10, 9);
  EXPECT_THAT(error_of_opening(ends_path), HasSubstr("all tokens are equal"));
}

TEST_F(TokenFileTest, NamesFieldThatItsJsonLacksOrHasWrong) {
  const Tokens16 tokens = {1, 2, 3};
  const auto path = write_tokens("x.bin", tokens);
  const nlohmann::json good = to_json(write_info(path, tokens, 5, {}));
  const auto error_with = [&](std::string_view field, const nlohmann::json& value) {
    nlohmann::json changed = good;
    changed[std::string(field)] = value;
    if (value.is_null()) changed.erase(std::string(field));
    std::ofstream(info_path(path)) << changed.dump();
    return error_of_opening(path);
  };
  EXPECT_THAT(error_with("num_tokens", nullptr), HasSubstr("x.json: field num_tokens is missing"));
  EXPECT_THAT(error_with("dtype", "int8"), HasSubstr("dtype=int8: takes uint16 | uint32"));
  EXPECT_THAT(error_with("schema_version", 2), HasSubstr("schema_version=2"));
  EXPECT_THAT(error_with("max_token", 5), HasSubstr("max_token=5: must be from 0 to"));
  EXPECT_THAT(error_with("vocab_size", 1LL << 32), HasSubstr("vocab_size=4294967296: at most"));
  std::ofstream(info_path(path)) << "{\"schema_ver";
  EXPECT_THAT(error_of_opening(path), HasSubstr("damaged JSON"));
}

TEST_F(TokenFileTest, RefusesModelWithTooSmallVocabularyOrTooLongRows) {
  const TokenFile file(write_tokens("x.bin", Tokens16{1, 2, 300, 4, 5}));
  file.check_fits(config_with(301, 4));  // Five tokens: four inputs and the last target.
  EXPECT_THAT(config_error_of([&] { file.check_fits(config_with(300, 4)); }),
              AllOf(HasSubstr("vocab_size=300"), HasSubstr("needs at least 301")));
  EXPECT_THAT(config_error_of([&] { file.check_fits(config_with(301, 5)); }),
              AllOf(HasSubstr("sequence_length=5"), HasSubstr("at most 4")));
}

TEST_F(TokenFileTest, RefusesTokensChangedBehindItsJson) {
  const Tokens16 tokens = {1, 2, 3};
  const auto path = write_tokens("x.bin", tokens);
  write_info(path, tokens, 5, {});
  write_tokens("x.bin", Tokens16{1, 999, 3});
  const TokenFile file(path);
  EXPECT_EQ(file.at(0), 1);
  EXPECT_THAT(config_error_of([&] { file.at(1); }), HasSubstr("has token 999, but max_token=3"));
}

TEST(TokenFileInfo, ComesBackFromJsonAsItWas) {
  const TokenFileInfo info{.name = "n",
                           .tokenizer = "bpe",
                           .dtype = TokenType::kUint32,
                           .vocab_size = 70000,
                           .max_token = 69999,
                           .num_tokens = 12,
                           .num_documents = 3,
                           .document_end_token = 4,
                           .sha256 = "ab",
                           .source = {{"num_files", 3}}};
  const TokenFileInfo back = token_file_info_from_json(to_json(info), "x.json");
  EXPECT_EQ(to_json(back), to_json(info));
  EXPECT_EQ(back.document_end_token, 4);
  EXPECT_EQ(back.dtype, TokenType::kUint32);
  EXPECT_EQ(back.num_documents, 3);
}

}  // namespace
}  // namespace steplens
