#include "trainer/checkpoint/snapshot.h"

#include <algorithm>

#include "base/parallel.h"
#include "trainer/weights/saved_state.h"

namespace longshore::trainer {

Snapshot::Snapshot(const offload::ParameterLayout& layout, offload::Backend& backend,
                   offload::Ledger& ledger, World& world)
    : held_(layout), layout_(whole(layout)), world_(world), arguments_(backend, ledger) {
  if (!world.is_first()) return;
  constexpr int64_t kPiece = int64_t{16} << 20;
  for (const offload::Slab& slab : layout_.slabs)
    for (offload::Copy copy : saved_copies(layout_, slab)) {
      const std::string name = argument_name(slab, copy);
      const int64_t total = bytes(slab, copy);
      std::byte* memory =
          arguments_.at(name, total, offload::MemoryKind::unpinned_host, offload::category(copy));
      for (int64_t first = 0; first < total; first += kPiece)
        pieces_.push_back({name, first, std::min(kPiece, total - first), memory + first});
    }
}

void Snapshot::take(const offload::Arguments& state) {
  world_.size() == 1 ? copy(state) : gather(state);
}

void Snapshot::copy(const offload::Arguments& state) {
  parallel_for(pieces_.size(), [&](size_t i) {
    const Piece& piece = pieces_[i];
    state.read_part(piece.name, piece.offset, piece.to, piece.bytes);
  });
}

void Snapshot::gather(const offload::Arguments& state) {
  std::vector<std::byte> shard;
  for (size_t i = 0; i < held_.slabs.size(); ++i)
    for (offload::Copy copy : saved_copies(held_, held_.slabs[i])) {
      const std::string name = argument_name(held_.slabs[i], copy);
      // Of replicas the first gives what all of them hold.
      const bool gives = held_.mesh.data.rank == 0;
      shard.resize(gives ? static_cast<size_t>(bytes(held_.slabs[i], copy)) : 0);
      if (gives) state.read_part(name, 0, shard.data(), std::ssize(shard));
      const int64_t total = bytes(layout_.slabs[i], copy);
      std::span<std::byte> all;
      if (world_.is_first())
        all = {
            arguments_.at(name, total, offload::MemoryKind::unpinned_host, offload::category(copy)),
            static_cast<size_t>(total)};
      world_.gather_to_first(shard, all);
    }
}

}  // namespace longshore::trainer
