#include "profilers/injection/nvtx_listener.h"

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace steplens {
namespace {

// The function tables of a program's NVTX, as the macro-made one of nvtx3 has them.
class FakeNvtx {
 public:
  FakeNvtx() {
    current() = this;
    for (std::size_t i = 0; i < core_.size(); ++i) core_table_[i] = &core_[i];
    for (std::size_t i = 0; i < core2_.size(); ++i) core2_table_[i] = &core2_[i];
    callbacks_ = {.struct_size = sizeof(NvtxExportTableCallbacks),
                  .GetModuleFunctionTable = [](NvtxCallbackModule module, NvtxFunctionTable* table,
                                               unsigned int* size) {
                    return current()->table_of(module, table, size);
                  }};
  }
  ~FakeNvtx() { current() = nullptr; }
  FakeNvtx(const FakeNvtx&) = delete;
  FakeNvtx& operator=(const FakeNvtx&) = delete;

  bool has_callbacks = true;
  bool has_core = true;
  bool has_core2 = true;
  unsigned int core_size = NVTX_CBID_CORE_SIZE;

  void set_struct_size(std::size_t size) { callbacks_.struct_size = size; }
  void forget_core(std::size_t index) { core_table_[index] = nullptr; }

  int attach(RangeRecorder& ranges) {
    return attach_nvtx(
        [](std::uint32_t id) -> const void* {
          return id == NVTX_ETID_CALLBACKS && current()->has_callbacks ? &current()->callbacks_
                                                                       : nullptr;
        },
        ranges);
  }

  bool has(NvtxCallbackIdCore id) const { return core_[id] != nullptr; }

  // Calls a function of the table, which has the type that NVTX declares for it.
  template <typename Result = int, typename... Arguments>
  Result core(NvtxCallbackIdCore id, Arguments... arguments) {
    return reinterpret_cast<Result (*)(Arguments...)>(core_[id])(arguments...);
  }
  template <typename Result = int, typename... Arguments>
  Result core2(NvtxCallbackIdCore2 id, Arguments... arguments) {
    return reinterpret_cast<Result (*)(Arguments...)>(core2_[id])(arguments...);
  }

 private:
  static FakeNvtx*& current() {
    static FakeNvtx* nvtx = nullptr;
    return nvtx;
  }
  int table_of(NvtxCallbackModule module, NvtxFunctionTable* table, unsigned int* size) {
    if (module == NVTX_CB_MODULE_CORE && has_core) {
      *table = core_table_.data();
      *size = core_size;
      return 1;
    }
    if (module == NVTX_CB_MODULE_CORE2 && has_core2) {
      *table = core2_table_.data();
      *size = NVTX_CBID_CORE2_SIZE;
      return 1;
    }
    return 0;
  }

  std::array<NvtxFunctionPointer, NVTX_CBID_CORE_SIZE> core_{};
  std::array<NvtxFunctionPointer, NVTX_CBID_CORE2_SIZE> core2_{};
  std::array<NvtxFunctionPointer*, NVTX_CBID_CORE_SIZE> core_table_{};
  std::array<NvtxFunctionPointer*, NVTX_CBID_CORE2_SIZE> core2_table_{};
  NvtxExportTableCallbacks callbacks_{};
};

class NvtxListenerTest : public testing::Test {
 protected:
  NvtxListenerTest() { recorder_.set_recording(true); }
  ~NvtxListenerTest() override { detach_nvtx(); }

  static nvtxEventAttributes_t attributes(const char* message) {
    nvtxEventAttributes_t result{};
    result.version = NVTX_VERSION;
    result.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    result.messageType = NVTX_MESSAGE_TYPE_ASCII;
    result.message.ascii = message;
    return result;
  }

  int push(const nvtxEventAttributes_t* message) {
    return nvtx_.core(NVTX_CBID_CORE_RangePushEx, message);
  }

  // Domain and name of the range that was opened last, as "domain:name".
  std::string last() const {
    const RangeRecorder::Snapshot snapshot = recorder_.snapshot();
    const std::vector<std::string> texts = names_.texts();
    const RangeRecorder::Thread& thread = snapshot.threads.at(0);
    const RangeRecorder::Instance* latest = nullptr;
    for (const auto* instances : {&thread.instances, &thread.started}) {
      for (const RangeRecorder::Instance& instance : *instances) {
        if (latest == nullptr || instance.start_ns > latest->start_ns) latest = &instance;
      }
    }
    const Range& range = snapshot.ranges[latest->range];
    return texts[range.domain] + ":" + texts[range.name];
  }

  static std::int64_t tick() {
    static std::int64_t now_ns = 0;
    return ++now_ns;
  }

  StringTable names_;
  RangeRecorder recorder_{names_, tick};
  FakeNvtx nvtx_;
};

TEST_F(NvtxListenerTest, TakesPushesAndPopsOfAllKinds) {
  ASSERT_EQ(nvtx_.attach(recorder_), 1);
  EXPECT_EQ(nvtx_.core(NVTX_CBID_CORE_RangePushA, "ascii"), 0);
  EXPECT_EQ(last(), ":ascii");
  EXPECT_EQ(nvtx_.core(NVTX_CBID_CORE_RangePushW, L"wide"), 1);
  EXPECT_EQ(last(), ":wide");
  const nvtxEventAttributes_t with_attributes = attributes("attributes");
  EXPECT_EQ(push(&with_attributes), 2);
  EXPECT_EQ(last(), ":attributes");
  for (const int depth : {2, 1, 0, -1}) EXPECT_EQ(nvtx_.core(NVTX_CBID_CORE_RangePop), depth);
  EXPECT_EQ(recorder_.snapshot().num_stray_pops, 1);
}

TEST_F(NvtxListenerTest, TakesStartsAndEnds) {
  ASSERT_EQ(nvtx_.attach(recorder_), 1);
  recorder_.push(0, "own");
  const auto ascii = nvtx_.core<nvtxRangeId_t>(NVTX_CBID_CORE_RangeStartA, "ascii");
  EXPECT_EQ(last(), ":ascii");
  const auto wide = nvtx_.core<nvtxRangeId_t>(NVTX_CBID_CORE_RangeStartW, L"wide");
  EXPECT_EQ(last(), ":wide");
  const nvtxEventAttributes_t with_attributes = attributes("attributes");
  const auto rich = nvtx_.core<nvtxRangeId_t>(NVTX_CBID_CORE_RangeStartEx, &with_attributes);
  EXPECT_EQ(last(), ":attributes");
  EXPECT_NE(ascii, wide);
  for (const nvtxRangeId_t id : {ascii, rich}) nvtx_.core<void>(NVTX_CBID_CORE_RangeEnd, id);
  const RangeRecorder::Snapshot snapshot = recorder_.snapshot();
  ASSERT_EQ(snapshot.threads.at(0).started.size(), 3u);
  int num_open = 0;
  for (const auto& instance : snapshot.threads[0].started) num_open += instance.end_ns == 0;
  EXPECT_EQ(num_open, 1);
}

TEST_F(NvtxListenerTest, TellsDomainsApart) {
  ASSERT_EQ(nvtx_.attach(recorder_), 1);
  const auto nccl = nvtx_.core2<nvtxDomainHandle_t>(NVTX_CBID_CORE2_DomainCreateA, "NCCL");
  const auto wide = nvtx_.core2<nvtxDomainHandle_t>(NVTX_CBID_CORE2_DomainCreateW, L"CCCL");
  const nvtxEventAttributes_t reduce = attributes("reduce");
  EXPECT_EQ(nvtx_.core2(NVTX_CBID_CORE2_DomainRangePushEx, nccl, &reduce), 0);
  EXPECT_EQ(last(), "NCCL:reduce");
  EXPECT_EQ(nvtx_.core2(NVTX_CBID_CORE2_DomainRangePushEx, wide, &reduce), 0);
  EXPECT_EQ(last(), "CCCL:reduce");
  EXPECT_EQ(nvtx_.core2(NVTX_CBID_CORE2_DomainRangePushEx, nvtxDomainHandle_t{}, &reduce), 0);
  EXPECT_EQ(last(), ":reduce");  // No domain: the default one.
  EXPECT_EQ(nvtx_.core(NVTX_CBID_CORE_RangePop), 0);
  EXPECT_EQ(nvtx_.core2(NVTX_CBID_CORE2_DomainRangePop, nccl), 0);
  EXPECT_EQ(nvtx_.core2(NVTX_CBID_CORE2_DomainRangePop, nccl), -1);
  const auto id = nvtx_.core2<nvtxRangeId_t>(NVTX_CBID_CORE2_DomainRangeStartEx, wide, &reduce);
  EXPECT_EQ(last(), "CCCL:reduce");
  nvtx_.core2<void>(NVTX_CBID_CORE2_DomainRangeEnd, wide, id);
  EXPECT_NE(recorder_.snapshot().threads.at(0).started.at(0).end_ns, 0);
  // The same name is the same domain, whichever module made it.
  const auto again = nvtx_.core2<nvtxDomainHandle_t>(NVTX_CBID_CORE2_DomainCreateA, "NCCL");
  EXPECT_EQ(nvtx_.core2(NVTX_CBID_CORE2_DomainRangePushEx, nccl, &reduce), 0);
  EXPECT_EQ(nvtx_.core2(NVTX_CBID_CORE2_DomainRangePushEx, again, &reduce), 1);
}

TEST_F(NvtxListenerTest, ReadsRegisteredAndWideMessages) {
  ASSERT_EQ(nvtx_.attach(recorder_), 1);
  const nvtxDomainHandle_t none{};
  nvtxEventAttributes_t message = attributes("");
  message.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  message.message.registered =
      nvtx_.core2<nvtxStringHandle_t>(NVTX_CBID_CORE2_DomainRegisterStringA, none, "registered");
  push(&message);
  EXPECT_EQ(last(), ":registered");
  message.message.registered =
      nvtx_.core2<nvtxStringHandle_t>(NVTX_CBID_CORE2_DomainRegisterStringW, none, L"wide handle");
  push(&message);
  EXPECT_EQ(last(), ":wide handle");
  message.messageType = NVTX_MESSAGE_TYPE_UNICODE;
  message.message.unicode = L"wide";
  push(&message);
  EXPECT_EQ(last(), ":wide");
}

TEST_F(NvtxListenerTest, TakesWhatIsNoMessage) {
  ASSERT_EQ(nvtx_.attach(recorder_), 1);
  nvtx_.core(NVTX_CBID_CORE_RangePushA, static_cast<const char*>(nullptr));
  nvtx_.core(NVTX_CBID_CORE_RangePushW, static_cast<const wchar_t*>(nullptr));
  push(nullptr);
  nvtxEventAttributes_t message = attributes(nullptr);
  push(&message);
  message.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  message.message.registered = nullptr;
  push(&message);
  message.messageType = NVTX_MESSAGE_UNKNOWN;
  EXPECT_EQ(push(&message), 5);
  EXPECT_EQ(last(), ":");
}

TEST_F(NvtxListenerTest, WritesWideTextAsUtf8) {
  ASSERT_EQ(nvtx_.attach(recorder_), 1);
  nvtx_.core(NVTX_CBID_CORE_RangePushW, L"\u00e9 \u4e2d \U0001f600");
  EXPECT_EQ(last(), ":\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80");
}

TEST_F(NvtxListenerTest, LeavesAnNvtxThatItDoesNotKnowAlone) {
  nvtx_.has_callbacks = false;
  EXPECT_EQ(nvtx_.attach(recorder_), 0);
  nvtx_.has_callbacks = true;
  nvtx_.set_struct_size(8);
  EXPECT_EQ(nvtx_.attach(recorder_), 0);
  nvtx_.set_struct_size(sizeof(NvtxExportTableCallbacks));
  nvtx_.has_core = false;
  EXPECT_EQ(nvtx_.attach(recorder_), 0);
  EXPECT_FALSE(nvtx_.has(NVTX_CBID_CORE_RangePushA));
}

TEST_F(NvtxListenerTest, TakesAnNvtxWithFewerFunctions) {
  nvtx_.has_core2 = false;
  nvtx_.core_size = NVTX_CBID_CORE_RangePushW;  // That one and those behind it are not there.
  nvtx_.forget_core(NVTX_CBID_CORE_RangeStartA);
  EXPECT_EQ(nvtx_.attach(recorder_), 1);
  EXPECT_TRUE(nvtx_.has(NVTX_CBID_CORE_RangePushA));
  EXPECT_FALSE(nvtx_.has(NVTX_CBID_CORE_RangeStartA));
  EXPECT_FALSE(nvtx_.has(NVTX_CBID_CORE_RangePushW));
  EXPECT_FALSE(nvtx_.has(NVTX_CBID_CORE_RangePop));
}

TEST_F(NvtxListenerTest, DoesNothingOnceItIsDetached) {
  ASSERT_EQ(nvtx_.attach(recorder_), 1);
  nvtx_.core(NVTX_CBID_CORE_RangePushA, "before");
  detach_nvtx();
  const nvtxEventAttributes_t message = attributes("after");
  EXPECT_EQ(nvtx_.core(NVTX_CBID_CORE_RangePushA, "after"), NVTX_NO_PUSH_POP_TRACKING);
  EXPECT_EQ(nvtx_.core(NVTX_CBID_CORE_RangePop), NVTX_NO_PUSH_POP_TRACKING);
  const auto id = nvtx_.core<nvtxRangeId_t>(NVTX_CBID_CORE_RangeStartA, "after");
  nvtx_.core<void>(NVTX_CBID_CORE_RangeEnd, id);
  const auto domain = nvtx_.core2<nvtxDomainHandle_t>(NVTX_CBID_CORE2_DomainCreateA, "after");
  EXPECT_EQ(nvtx_.core2(NVTX_CBID_CORE2_DomainRangePushEx, domain, &message),
            NVTX_NO_PUSH_POP_TRACKING);
  EXPECT_EQ(last(), ":before");
  EXPECT_EQ(names_.texts().size(), 2u);
}

}  // namespace
}  // namespace steplens
