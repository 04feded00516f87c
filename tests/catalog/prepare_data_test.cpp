#include "workloads/catalog/prepare_data.h"

#include "tests/catalog/token_fixture.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/files.h"

namespace steplens {
namespace {

using testing::config_error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PrepareDataTest : public testing::FolderTest {
 protected:
  PrepareOptions options_for(std::string_view input) const {
    PrepareOptions options;
    options.inputs = {folder_ / input};
    options.patterns = {"*.py"};
    options.output = folder_ / "out" / "x.bin";
    options.name = "test";
    return options;
  }

  std::vector<std::int32_t> tokens_of(const std::filesystem::path& path) const {
    const TokenFile file(path);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.num_tokens()));
    file.copy(0, tokens);
    return tokens;
  }

  std::vector<std::string> names_in(const std::filesystem::path& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      names.push_back(entry.path().filename());
    }
    std::ranges::sort(names);
    return names;
  }
};

TEST_F(PrepareDataTest, WritesBytesAndClosesEachFile) {
  write("in/a.py", "ab");
  write("in/b.py", "\xe2\x82\xac\n");  // The euro sign.
  const PreparedData data = prepare_data(options_for("in"));
  EXPECT_THAT(tokens_of(folder_ / "out/x.bin"),
              ElementsAre(97, 98, 256, 0xe2, 0x82, 0xac, 10, 256));
  EXPECT_EQ(data.num_files, 2);
  EXPECT_EQ(data.num_text_bytes, 6);

  const TokenFile file(folder_ / "out/x.bin");
  EXPECT_THAT(file.document_ends(), ElementsAre(2, 7));
  EXPECT_EQ(file.info().num_documents, 2);
  EXPECT_EQ(file.info().vocab_size, 257);
  EXPECT_EQ(file.info().max_token, 256);
  EXPECT_EQ(file.info().document_end_token, 256);
  EXPECT_EQ(file.info().tokenizer, "bytes");
  // sha256sum of those eight uint16.
  EXPECT_EQ(file.info().sha256, "f21cbd26da41fdaf5f32e6576aa2544ae782d3667294339e9ca728b0a2ecce59");
  EXPECT_THAT(names_in(folder_ / "out"), ElementsAre("x.bin", "x.json"));
}

TEST_F(PrepareDataTest, OrdersFilesByBytesOfRelativePath) {
  write("in/b.py", "1");
  write("in/a/z.py", "2");
  write("in/a.py", "3");
  write("in/a/b/c.py", "4");
  write("in/B.py", "5");
  prepare_data(options_for("in"));
  // B.py, a.py, a/b/c.py, a/z.py, b.py: capitals first, and '.' before '/'.
  EXPECT_THAT(tokens_of(folder_ / "out/x.bin"),
              ElementsAre('5', 256, '3', 256, '4', 256, '2', 256, '1', 256));
}

TEST_F(PrepareDataTest, TakesInputsInTheirOrderAndNamedFilesWhateverTheirName) {
  write("in/a.py", "ab");
  PrepareOptions options = options_for("in");
  options.inputs = {write("z.txt", "zy"), folder_ / "in"};
  prepare_data(options);
  EXPECT_THAT(tokens_of(options.output), ElementsAre('z', 'y', 256, 'a', 'b', 256));
}

TEST_F(PrepareDataTest, SkipsOtherNamesBinaryAndEmptyFilesAndCountsThem) {
  write("in/a.py", "ab");
  write("in/b.txt", "not asked for");
  write("in/c.py", std::string_view("x\0y", 3));
  write("in/d.py", "");
  std::vector<std::int64_t> done;
  PrepareOptions options = options_for("in");
  options.on_progress = [&](const PrepareProgress& progress) {
    done.push_back(progress.num_files_done);
    EXPECT_EQ(progress.num_files, 3);
  };
  const PreparedData data = prepare_data(options);
  EXPECT_THAT(tokens_of(options.output), ElementsAre('a', 'b', 256));
  EXPECT_EQ(data.num_files, 1);
  EXPECT_EQ(data.num_binary_files, 1);
  EXPECT_EQ(data.num_empty_files, 1);
  EXPECT_THAT(done, ElementsAre(1, 2, 3));
}

TEST_F(PrepareDataTest, FindsNulBehindTheFirstChunk) {
  std::string late(3 << 20, 'x');
  late.back() = '\0';
  write("in/a.py", late);
  write("in/b.py", "cd");
  const PreparedData data = prepare_data(options_for("in"));
  EXPECT_EQ(data.num_binary_files, 1);
  EXPECT_THAT(tokens_of(folder_ / "out/x.bin"), ElementsAre('c', 'd', 256));
}

TEST_F(PrepareDataTest, KeepsFilesLargerThanItsBuffersWhole) {
  std::string text;
  for (int i = 0; i < 400000; ++i) text += "line" + std::to_string(i % 7) + "\n";
  write("in/a.py", text);
  prepare_data(options_for("in"));
  const std::vector<std::int32_t> tokens = tokens_of(folder_ / "out/x.bin");
  ASSERT_EQ(tokens.size(), text.size() + 1);
  for (std::size_t i = 0; i < text.size(); ++i) ASSERT_EQ(tokens[i], text[i]) << i;
  EXPECT_EQ(tokens.back(), 256);
}

TEST_F(PrepareDataTest, GivesTheSameFileTwiceEvenIntoTheFolderThatItWalks) {
  write("in/a.py", "ab");
  PrepareOptions options = options_for("in");
  options.patterns = {};
  options.output = folder_ / "in" / "x.bin";
  const PreparedData first = prepare_data(options);
  const PreparedData second = prepare_data(options);
  EXPECT_EQ(first.info.sha256, second.info.sha256);
  EXPECT_EQ(second.num_files, 1);
  EXPECT_EQ(second.num_binary_files, 0);
}

TEST_F(PrepareDataTest, RefusesNoTextAndLeavesNothing) {
  write("in/c.py", std::string_view("x\0y", 3));
  write("in/d.py", "");
  EXPECT_THAT(config_error_of([&] { prepare_data(options_for("in")); }),
              AllOf(HasSubstr("no text in"), HasSubstr("1 binary and 1 empty")));
  write("constant/a.py", "zzzz");
  write("constant/b.py", "zz");
  EXPECT_THAT(config_error_of([&] { prepare_data(options_for("constant")); }),
              HasSubstr("one byte repeated"));
  EXPECT_THAT(config_error_of([&] { prepare_data(options_for("missing")); }),
              HasSubstr("missing: cannot read: No such"));
  EXPECT_TRUE(names_in(folder_ / "out").empty());
}

TEST_F(PrepareDataTest, KeepsTheEarlierFileWhenTheNewTextIsRefused) {
  write("in/a.py", "ab");
  prepare_data(options_for("in"));
  write("in/a.py", "");
  EXPECT_THAT(config_error_of([&] { prepare_data(options_for("in")); }), HasSubstr("no text"));
  EXPECT_THAT(tokens_of(folder_ / "out/x.bin"), ElementsAre('a', 'b', 256));
}

TEST_F(PrepareDataTest, NamesOptionThatIsWrong) {
  write("in/a.py", "ab");
  const auto error_with = [&](auto change) {
    PrepareOptions options = options_for("in");
    change(options);
    return config_error_of([&] { prepare_data(options); });
  };
  EXPECT_THAT(error_with([](PrepareOptions& o) { o.inputs.clear(); }), HasSubstr("inputs"));
  EXPECT_THAT(error_with([](PrepareOptions& o) { o.name = ""; }), HasSubstr("name"));
  EXPECT_THAT(error_with([](PrepareOptions& o) { o.tokenizer = "words"; }),
              HasSubstr("tokenizer=words: not allowed; takes bytes | bpe"));
  EXPECT_THAT(error_with([](PrepareOptions& o) { o.output = "x.dat"; }),
              HasSubstr("end with .bin"));
  EXPECT_THAT(error_with([](PrepareOptions& o) {
                o.tokenizer = "bpe";
                o.bpe_script = "no_script.py";
              }),
              HasSubstr("no_script.py: cannot read"));
}

// A stand-in for the script: what is tested is how it is called and how its end is read.
TEST_F(PrepareDataTest, RunsTheScriptForBpe) {
  write("in/a.py", "ab");
  PrepareOptions options = options_for("in");
  options.tokenizer = "bpe";
  options.vocab_size = 300;
  options.python = "/bin/sh";
  const std::vector<std::uint16_t> tokens = {5, 6, 7, 299};
  TokenFileInfo info = write_info(write_tokens("made.bin", tokens), tokens, 300, 299);
  info.tokenizer = "bpe";
  info.source = {{"num_files", 1}, {"num_text_bytes", 2}};
  write("made.json", to_json(info).dump());
  options.bpe_script = write("script.sh",
                             "dir=$(dirname \"$0\")\n"
                             "echo \"$@\" > \"$dir/arguments\"\n"
                             "cp \"$dir/made.bin\" \"$2\"\n"
                             "cp \"$dir/made.json\" \"${2%.bin}.json\"\n");
  const PreparedData data = prepare_data(options);
  EXPECT_EQ(read_file(folder_ / "arguments"),
            "--output " + options.output.string() +
                " --name test --vocab-size 300 --pattern *.py -- " + (folder_ / "in").string() +
                "\n");
  EXPECT_EQ(data.info.tokenizer, "bpe");
  EXPECT_EQ(data.info.num_tokens, 4);
  EXPECT_EQ(data.num_text_bytes, 2);

  options.bpe_script = write("failing.sh", "exit 7\n");
  EXPECT_THAT(config_error_of([&] { prepare_data(options); }),
              HasSubstr("failing.sh: ended with exit code 7"));
  options.python = "no-such-python";
  EXPECT_THAT(config_error_of([&] { prepare_data(options); }),
              HasSubstr("no-such-python: cannot start"));
}

TEST_F(PrepareDataTest, FindsPythonSourcesOfTorch) {
  write("site/torch/a.py", "ab");
  write("site/torch/nn/b.py", "cd");
  write("site/torch/lib.so", "ef");
  write("site/other/c.py", "gh");
  const PreparedData data =
      prepare_data(torch_python_corpus(folder_ / "site", folder_ / "out/torch.bin"));
  EXPECT_EQ(data.info.name, "torch-python");
  EXPECT_THAT(tokens_of(folder_ / "out/torch.bin"), ElementsAre('a', 'b', 256, 'c', 'd', 256));
  EXPECT_THAT(config_error_of([&] { torch_python_corpus(folder_ / "out", "x.bin"); }),
              HasSubstr("has no folder torch"));
}

}  // namespace
}  // namespace steplens
