#include "harness/ranks/rank_place.h"

#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"

namespace steplens {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

using Variables = std::map<std::string, std::string>;

ReadVariable reader(const Variables& variables) {
  return [&variables](const char* name) {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  };
}

TEST(RankPlaceFrom, ReadsTorchrunFirst) {
  const Variables variables = {{"RANK", "5"},           {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},     {"MASTER_ADDR", "10.0.0.7"},
                               {"MASTER_PORT", "2950"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                               {"SLURM_PROCID", "2"},   {"SLURM_NTASKS", "4"}};
  const auto place = rank_place_from(reader(variables));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, "torchrun");
  EXPECT_EQ(place->rank, 5);
  EXPECT_EQ(place->world_size, 8);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->master_address, "10.0.0.7");
  EXPECT_EQ(place->master_port, 2950);
  EXPECT_TRUE(place->is_store_of_launcher);
}

TEST(RankPlaceFrom, ReadsBothMpirunsAndSrun) {
  const Variables open_mpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}};
  EXPECT_EQ(rank_place_from(reader(open_mpi))->rank, 1);
  EXPECT_EQ(rank_place_from(reader(open_mpi))->local_rank, 0);
  EXPECT_TRUE(rank_place_from(reader(open_mpi))->master_address.empty());
  const Variables mpich = {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}};
  EXPECT_EQ(rank_place_from(reader(mpich))->launcher, "mpirun");
  EXPECT_EQ(rank_place_from(reader(mpich))->local_rank, 3) << "one host unless it says more";
  const Variables srun = {{"SLURM_PROCID", "6"}, {"SLURM_NTASKS", "16"}, {"SLURM_LOCALID", "6"}};
  EXPECT_EQ(rank_place_from(reader(srun))->launcher, "srun");
  EXPECT_EQ(rank_place_from(reader(srun))->world_size, 16);
  EXPECT_FALSE(rank_place_from(reader({})));
}

TEST(RankPlaceFrom, NamesWhatIsWrong) {
  const auto expect = [](const Variables& variables, const std::string& text) {
    EXPECT_THAT([&] { rank_place_from(reader(variables)); },
                ThrowsMessage<ConfigError>(HasSubstr(text)));
  };
  expect({{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK=2: takes an integer from 0 to 1");
  expect({{"RANK", "x"}, {"WORLD_SIZE", "2"}}, "RANK=x");
  expect({{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "WORLD_SIZE=0: takes an integer >= 1");
  expect({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}}, "MASTER_PORT");
  expect({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}},
         "MASTER_PORT=70000: takes an integer from 1 to 65535");
}

TEST(PlaceInBlock, HoldsTheBlockAgainstTheLauncher) {
  const Variables two = {{"RANK", "1"}, {"WORLD_SIZE", "2"}};
  EXPECT_EQ(place_in_block(reader(two), 2).rank, 1);
  EXPECT_THAT([&] { place_in_block(reader(two), 4); },
              ThrowsMessage<ConfigError>(
                  HasSubstr("world_size=4: the block is for 4 ranks, and torchrun started 2")));
  EXPECT_THAT([&] { place_in_block(reader(two), 1); },
              ThrowsMessage<ConfigError>(HasSubstr("the block is for 1 rank, and")));
  EXPECT_THAT([&] { place_in_block(reader({}), 2); },
              ThrowsMessage<ConfigError>(HasSubstr("--ranks 2")));
  EXPECT_EQ(place_in_block(reader({}), 1).world_size, 1);
  // A batch script of an allocation of four tasks is itself one process.
  EXPECT_EQ(place_in_block(reader({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}), 1).world_size,
            1);
}

}  // namespace
}  // namespace steplens
