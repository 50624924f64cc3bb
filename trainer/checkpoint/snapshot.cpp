#include "trainer/checkpoint/snapshot.h"

#include "base/parallel.h"
#include "base/pieces.h"
#include "trainer/weights/saved_state.h"

namespace longshore::trainer {

Snapshot::Snapshot(const offload::ParameterLayout& layout, offload::Backend& backend,
                   offload::Ledger& ledger)
    : arguments_(backend, ledger) {
  // Many for each processor, so that all of them end at the same time.
  constexpr int64_t kPieceBytes = int64_t{16} << 20;
  for (const auto& [name, category, bytes] : saved_arguments(layout)) {
    std::byte* memory = arguments_.at(name, bytes, offload::MemoryKind::unpinned_host, category);
    for_each_piece(bytes, kPieceBytes, [&, &name = name](int64_t first, int64_t count) {
      pieces_.push_back({name, first, count, memory + first});
    });
  }
}

void Snapshot::take(const offload::Arguments& state) {
  parallel_for(pieces_.size(), [&](size_t i) {
    const Piece& piece = pieces_[i];
    state.read_part(piece.name, piece.offset, piece.to, piece.bytes);
  });
}

}  // namespace longshore::trainer
