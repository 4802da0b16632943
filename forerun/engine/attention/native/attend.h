// Attention over a paged cache, softmax(scale q k') v of ragged batches: the work of one layer, cut and shared out.
//
// A row's keys are cut into chunks at fixed positions, and the chunks' partial results are folded from left to right:
// neither what stands beside a row in the batch nor the number of threads changes a bit of its output.
#pragma once

#include <atomic>
#include <deque>
#include <vector>

#include "block.h"

constexpr int MIN_BLOCK_ROWS = 64;
constexpr int TASKS_PER_THREAD = 4;     // with fewer, blocks are made smaller, and then split by chunks
constexpr long SPLIT_FLOATS = 1 << 22;  // of partial results that a call may keep for that

// In nanoseconds, roughly, of one core:
constexpr long PARALLEL_COST = 50'000;  // waking other threads does not pay below this
constexpr long PACK_COST = 1'300;       // of a chunk
constexpr long TILE_COST = 1'200;       // of a tile of rows over a chunk

// A block of rows whose chunks are attended by several threads; whoever finishes last folds them.
struct Split {
    Split(long first_partial, int num_chunks) : first_partial(first_partial), left(num_chunks) {}
    long first_partial;
    std::atomic<int> left;
};

// A block's chunks, all of them or one of a split.
struct Task {
    Extent extent;
    int kv_head;
    Split* split = nullptr;
    int chunk = 0;

    long cost() const {
        const int chunks = split ? 1 : extent.end_chunk() - extent.first_chunk();
        return chunks * (PACK_COST + extent.num_tiles() * TILE_COST);
    }
};

template <typename Stored>
class Attention {
   public:
    Attention(const Step& step, const Layer& layer) : step(step), layer(layer), width(rounded_up(layer.head_dim)) {}

    void run() {
        cut(MAX_BLOCK_ROWS);
        long cost = 0;
        for (const Task& task : tasks) cost += task.cost();
        if (!step.parallel || cost < PARALLEL_COST) return work();
        for (int rows = MAX_BLOCK_ROWS / 2; too_few() && rows >= MIN_BLOCK_ROWS; rows /= 2) cut(rows);
        if (too_few()) split();
        const auto body = [](void* self) { static_cast<Attention*>(self)->work(); };
        step.parallel(body, this, step.num_threads, 0);
    }

   private:
    const Step& step;
    const Layer& layer;
    const int width;
    std::vector<Task> tasks;
    std::deque<Split> splits;
    std::unique_ptr<float[]> partials;
    std::atomic<size_t> next{0};

    bool too_few() const { return static_cast<int>(tasks.size()) < TASKS_PER_THREAD * step.num_threads; }

    // One task a block.
    void cut(int block_rows) {
        tasks.clear();
        const int heads = layer.num_heads / layer.num_kv_heads;
        for (int index = 0; index < step.num_segments; ++index) {
            const Segment* segment = step.segments + index;
            const int rows = segment->query_len * heads;
            for (int kv_head = 0; kv_head < layer.num_kv_heads; ++kv_head)
                for (int row = 0; row < rows; row += block_rows)
                    tasks.push_back({{segment, heads, layer.window, row, std::min(row + block_rows, rows)}, kv_head});
        }
    }

    // One task a chunk, where the partial results find room.
    void split() {
        long floats = 0;
        std::vector<Task> parts;
        for (const Task& task : tasks) {
            const int first = task.extent.first_chunk(), end = task.extent.end_chunk();
            Split* split = &splits.emplace_back(floats, end - first);
            for (int chunk = first; chunk < end; ++chunk) parts.push_back({task.extent, task.kv_head, split, chunk});
            floats += (end - first) * floats_of(task);
        }
        if (floats > SPLIT_FLOATS) return;
        partials.reset(new float[floats]);
        tasks.swap(parts);
    }

    long floats_of(const Task& task) const { return task.extent.num_tiles() * Partial::floats(width); }

    Partial kept(const Task& task, int chunk) const {
        const long before = (chunk - task.extent.first_chunk()) * floats_of(task);
        return {partials.get() + task.split->first_partial + before, width};
    }

    void work() {
        int max_rows = 0;
        for (const Task& task : tasks) max_rows = std::max(max_rows, task.extent.rows(0));
        const Multiplier multiplier(max_rows);
        for (size_t index; (index = next.fetch_add(1)) < tasks.size();) run(multiplier, tasks[index]);
    }

    void run(const Multiplier& multiplier, const Task& task) {
        const Block<Stored> block(step, layer, task.extent, task.kv_head);
        const int first = task.extent.first_chunk(), end = task.extent.end_chunk();
        if (task.split) {
            block.attend(multiplier, task.chunk, kept(task, task.chunk));
            if (task.split->left.fetch_sub(1) > 1) return;
        }
        block.clear();
        for (int chunk = first; chunk < end; ++chunk) {
            const Partial results = task.split ? kept(task, chunk) : block.room();
            if (!task.split) block.attend(multiplier, chunk, results);
            block.take(results);
        }
        block.finish();
    }
};

// float32 with bytes = 4, bfloat16 with bytes = 2.
inline void attend(const Step& step, const Layer& layer, int bytes) {
    if (bytes == 2)
        Attention<Bf16>(step, layer).run();
    else
        Attention<float>(step, layer).run();
}
