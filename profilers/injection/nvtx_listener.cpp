#include "profilers/injection/nvtx_listener.h"

#include <atomic>
#include <bit>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>

namespace steplens {
namespace {

// Null in a process that the traced one forked.
std::atomic<RangeRecorder*> receiver = nullptr;

// What NVTX's handles point to. They live as long as the process: programs keep them in statics.
struct Domain {
  DomainId id = 0;
};
std::mutex handles_mutex;
std::deque<Domain> domain_handles;
std::deque<std::string> string_handles;

// Range names are ASCII in practice; anything else is encoded as UTF-8.
std::string narrow(const wchar_t* text) {
  std::string result;
  for (; text != nullptr && *text != 0; ++text) {
    const auto code = std::bit_cast<std::uint32_t>(*text);
    const auto add = [&](std::uint32_t byte) { result += static_cast<char>(byte); };
    if (code < 0x80) {
      add(code);
    } else if (code < 0x800) {
      add(0xc0 | (code >> 6));
      add(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
      add(0xe0 | (code >> 12));
      add(0x80 | ((code >> 6) & 0x3f));
      add(0x80 | (code & 0x3f));
    } else {
      add(0xf0 | ((code >> 18) & 0x07));
      add(0x80 | ((code >> 12) & 0x3f));
      add(0x80 | ((code >> 6) & 0x3f));
      add(0x80 | (code & 0x3f));
    }
  }
  return result;
}

std::string message_of(const nvtxEventAttributes_t* attributes) {
  if (attributes == nullptr) return "";
  switch (attributes->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
      return attributes->message.ascii == nullptr ? "" : attributes->message.ascii;
    case NVTX_MESSAGE_TYPE_UNICODE: return narrow(attributes->message.unicode);
    case NVTX_MESSAGE_TYPE_REGISTERED:
      return attributes->message.registered == nullptr
                 ? ""
                 : *reinterpret_cast<const std::string*>(attributes->message.registered);
    default: return "";
  }
}

DomainId id_of(nvtxDomainHandle_t domain) {
  return domain == nullptr ? 0 : reinterpret_cast<const Domain*>(domain)->id;
}

std::string_view text_of(const char* message) { return message == nullptr ? "" : message; }

int push_range(DomainId domain, std::string_view message) {
  RangeRecorder* ranges = receiver;
  return ranges == nullptr ? NVTX_NO_PUSH_POP_TRACKING : ranges->push(domain, message);
}
int pop_range(DomainId domain) {
  RangeRecorder* ranges = receiver;
  return ranges == nullptr ? NVTX_NO_PUSH_POP_TRACKING : ranges->pop(domain);
}
nvtxRangeId_t start_range(DomainId domain, std::string_view message) {
  RangeRecorder* ranges = receiver;
  return ranges == nullptr ? 0 : ranges->start(domain, message);
}
void end_range(nvtxRangeId_t id) {
  if (RangeRecorder* ranges = receiver) ranges->end(id);
}

int NVTX_API push_ascii(const char* message) { return push_range(0, text_of(message)); }
int NVTX_API push_wide(const wchar_t* message) { return push_range(0, narrow(message)); }
int NVTX_API push_attributes(const nvtxEventAttributes_t* attributes) {
  return push_range(0, message_of(attributes));
}
int NVTX_API pop() { return pop_range(0); }
nvtxRangeId_t NVTX_API start_ascii(const char* message) { return start_range(0, text_of(message)); }
nvtxRangeId_t NVTX_API start_wide(const wchar_t* message) {
  return start_range(0, narrow(message));
}
nvtxRangeId_t NVTX_API start_attributes(const nvtxEventAttributes_t* attributes) {
  return start_range(0, message_of(attributes));
}
void NVTX_API end(nvtxRangeId_t id) { end_range(id); }

int NVTX_API domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  return push_range(id_of(domain), message_of(attributes));
}
int NVTX_API domain_pop(nvtxDomainHandle_t domain) { return pop_range(id_of(domain)); }
nvtxRangeId_t NVTX_API domain_start(nvtxDomainHandle_t domain,
                                    const nvtxEventAttributes_t* attributes) {
  return start_range(id_of(domain), message_of(attributes));
}
void NVTX_API domain_end(nvtxDomainHandle_t /*domain*/, nvtxRangeId_t id) { end_range(id); }

nvtxDomainHandle_t create_domain(std::string_view name) {
  RangeRecorder* ranges = receiver;
  const DomainId id = ranges == nullptr ? 0 : ranges->add_domain(name);
  const std::lock_guard lock(handles_mutex);
  return reinterpret_cast<nvtxDomainHandle_t>(&domain_handles.emplace_back(Domain{id}));
}
nvtxDomainHandle_t NVTX_API create_domain_ascii(const char* name) {
  return create_domain(text_of(name));
}
nvtxDomainHandle_t NVTX_API create_domain_wide(const wchar_t* name) {
  return create_domain(narrow(name));
}
nvtxStringHandle_t register_string(std::string text) {
  const std::lock_guard lock(handles_mutex);
  return reinterpret_cast<nvtxStringHandle_t>(&string_handles.emplace_back(std::move(text)));
}
nvtxStringHandle_t NVTX_API register_ascii(nvtxDomainHandle_t /*domain*/, const char* text) {
  return register_string(std::string(text_of(text)));
}
nvtxStringHandle_t NVTX_API register_wide(nvtxDomainHandle_t /*domain*/, const wchar_t* text) {
  return register_string(narrow(text));
}

template <typename Function>
void set(NvtxFunctionTable table, unsigned int size, int index, Function function) {
  if (static_cast<unsigned int>(index) < size && table[index] != nullptr) {
    *table[index] = reinterpret_cast<NvtxFunctionPointer>(function);
  }
}

}  // namespace

int attach_nvtx(NvtxGetExportTableFunc_t get_export_table, RangeRecorder& ranges) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr || callbacks->struct_size < sizeof(NvtxExportTableCallbacks)) return 0;
  receiver = &ranges;
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) == 0) return 0;
  set(table, size, NVTX_CBID_CORE_RangePushA, push_ascii);
  set(table, size, NVTX_CBID_CORE_RangePushW, push_wide);
  set(table, size, NVTX_CBID_CORE_RangePushEx, push_attributes);
  set(table, size, NVTX_CBID_CORE_RangePop, pop);
  set(table, size, NVTX_CBID_CORE_RangeStartA, start_ascii);
  set(table, size, NVTX_CBID_CORE_RangeStartW, start_wide);
  set(table, size, NVTX_CBID_CORE_RangeStartEx, start_attributes);
  set(table, size, NVTX_CBID_CORE_RangeEnd, end);
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 1;
  set(table, size, NVTX_CBID_CORE2_DomainRangePushEx, domain_push);
  set(table, size, NVTX_CBID_CORE2_DomainRangePop, domain_pop);
  set(table, size, NVTX_CBID_CORE2_DomainRangeStartEx, domain_start);
  set(table, size, NVTX_CBID_CORE2_DomainRangeEnd, domain_end);
  set(table, size, NVTX_CBID_CORE2_DomainCreateA, create_domain_ascii);
  set(table, size, NVTX_CBID_CORE2_DomainCreateW, create_domain_wide);
  set(table, size, NVTX_CBID_CORE2_DomainRegisterStringA, register_ascii);
  set(table, size, NVTX_CBID_CORE2_DomainRegisterStringW, register_wide);
  return 1;
}

void detach_nvtx() { receiver = nullptr; }

}  // namespace steplens
