#include "trainer/checkpoint/snapshot.h"

#include <algorithm>

#include "base/parallel.h"
#include "trainer/weights/saved_state.h"

namespace longshore::trainer {

Snapshot::Snapshot(const offload::ParameterLayout& layout, offload::Backend& backend,
                   offload::Ledger& ledger)
    : arguments_(backend, ledger) {
  constexpr int64_t kPiece = int64_t{16} << 20;
  for (const auto& [name, category, bytes] : saved_arguments(layout)) {
    std::byte* memory = arguments_.at(name, bytes, offload::MemoryKind::unpinned_host, category);
    for (int64_t first = 0; first < bytes; first += kPiece)
      pieces_.push_back({name, first, std::min(kPiece, bytes - first), memory + first});
  }
}

void Snapshot::take(const offload::Arguments& state) {
  parallel_for(pieces_.size(), [&](size_t i) {
    const Piece& piece = pieces_[i];
    state.read_part(piece.name, piece.offset, piece.to, piece.bytes);
  });
}

}  // namespace longshore::trainer
