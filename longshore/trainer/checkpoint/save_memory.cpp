#include "longshore/trainer/checkpoint/save_memory.h"

#include "longshore/trainer/weights/saved_state.h"

namespace longshore::trainer {

SaveMemory::SaveMemory(offload::Backend& backend, offload::Ledger& ledger)
    : memory_(backend, ledger) {
  constexpr const char* kName = "saving";
  memory_.at(kName, kSaveBytes, offload::MemoryKind::unpinned_host, offload::Category::saving);
  memory_.write_zeros(kName);
}

}  // namespace longshore::trainer
