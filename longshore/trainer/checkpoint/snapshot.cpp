#include "longshore/trainer/checkpoint/snapshot.h"

#include "longshore/base/parallel.h"
#include "longshore/base/pieces.h"
#include "longshore/trainer/weights/saved_state.h"

namespace longshore::trainer {

Snapshot::Snapshot(const offload::ParameterLayout& layout, offload::Backend& backend,
                   offload::Ledger& ledger)
    : arguments_(backend, ledger) {
  // Many for each processor, so that all of them end at the same time.
  constexpr int64_t kPieceBytes = int64_t{16} << 20;
  for (const SavedArgument& one : given_arguments(layout)) {
    std::byte* memory =
        arguments_.at(one.name, one.bytes, offload::MemoryKind::unpinned_host, one.category);
    for_each_piece(one.bytes, kPieceBytes, [&](int64_t first, int64_t count) {
      pieces_.push_back({one.name, first, count, memory + first});
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
