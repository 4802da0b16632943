// rows [num_rows, depth] bf16 times weights [columns, depth] of 16, 8 or 4 bits, which lie packed: one product, shared
// out. Product: of what numbers; see integers.h and bf16.h.
#pragma once

#include <atomic>
#include <cstdlib>
#include <memory>

#include "bf16.h"
#include "groups.h"
#include "integers.h"

// One call. weights: blocks of BLOCK_COLUMNS columns, each `steps` times STEP_BYTES, or PACKED_STEP_BYTES where they are
// of 4 bits. scales and biases `[columns]`.
struct Call {
    const uint16_t* rows;
    const void* weights;
    const float* scales;
    const float* biases;
    uint16_t* output;
    long num_rows, depth, columns, bits;
};

typedef void (*Body)(int64_t begin, int64_t end, void* self);
typedef void (*Parallel)(int64_t num_threads, Body body, void* self);

template <class Product>
class Linear {
   public:
    Linear(const Call& call, int num_threads, Parallel parallel)
        : call(call),
          steps(static_cast<int>((call.depth + Product::depth - 1) / Product::depth)),
          block_rows(static_cast<int>(std::min<long>(BLOCK_ROWS, call.num_rows))),
          step_bytes(call.bits == 4 ? PACKED_STEP_BYTES : STEP_BYTES),
          row_blocks((call.num_rows + block_rows - 1) / block_rows),
          column_blocks((call.columns + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS),
          num_threads(num_threads),
          parallel(parallel) {}

    void run() {
        const long num_coded = row_blocks * block_rows;
        facts.reset(new Facts[num_coded]);
        lines = numbers(num_coded * row_bytes());
        const long bytes = column_blocks * steps * step_bytes;
        const bool shares = num_threads > 1 && bytes * row_blocks >= MIN_SHARED_BYTES;
        if (shares && row_blocks > 2)
            share(&Linear::write_some);
        else
            write_some();
        cut(shares ? num_threads : 1);
        next = 0;
        if (shares)
            share(&Linear::multiply_some);
        else
            multiply_some();
    }

   private:
    static constexpr long MIN_SHARED_BYTES = 1 << 16;  // less is read sooner than another thread is woken
    static constexpr long MIN_TASK_BYTES = 1 << 15;    // what is read in one go is read ahead
    static constexpr int TASKS_PER_THREAD = 4;         // a thread that is held up leaves work to the others
    static constexpr long TASK_ROW_BLOCKS = 8;         // whose codes stay near while weights pass by

    struct Free {
        void operator()(void* memory) const { std::free(memory); }
    };

    typedef std::unique_ptr<int8_t, Free> Numbers;
    typedef typename Product::Rows Rows;
    typedef typename Product::Facts Facts;
    typedef typename Product::Unit Unit;

    static Numbers numbers(long count) { return Numbers(static_cast<int8_t*>(std::aligned_alloc(LINE, count))); }

    const Call& call;
    const int steps, block_rows, step_bytes;
    const long row_blocks, column_blocks;
    const int num_threads;
    const Parallel parallel;
    std::unique_ptr<Facts[]> facts;
    Numbers lines;
    std::atomic<long> next{0};
    void (Linear::*part)() = nullptr;
    long task_columns = 1, row_tasks = 1, column_tasks = 1;

    void share(void (Linear::*what)()) {
        part = what;
        parallel(num_threads, [](int64_t, int64_t, void* self) {
            auto* linear = static_cast<Linear*>(self);
            (linear->*linear->part)();
        }, this);
    }

    long row_bytes() const { return static_cast<long>(Rows::halves) * steps * LINE; }

    Rows block(long index) const {
        const long first = index * block_rows;
        return {lines.get() + first * row_bytes(), facts.get() + first, block_rows, steps};
    }

    void write_some() {
        for (long index; (index = next.fetch_add(1)) < row_blocks;) {
            const Rows written = block(index);
            for (int row = 0; row < block_rows; ++row) {
                const long number = index * block_rows + row;
                if (number < call.num_rows)
                    Product::write_row(written, row, call.rows + number * call.depth, call.depth);
                else
                    Product::clear_row(written, row);
            }
        }
    }

    void cut(int threads) {
        const long enough = (column_blocks + TASKS_PER_THREAD * threads - 1) / (TASKS_PER_THREAD * threads);
        const long block_bytes = static_cast<long>(steps) * step_bytes;
        task_columns = std::max(enough, (MIN_TASK_BYTES + block_bytes - 1) / block_bytes);
        column_tasks = (column_blocks + task_columns - 1) / task_columns;
        row_tasks = (row_blocks + TASK_ROW_BLOCKS - 1) / TASK_ROW_BLOCKS;
    }

    void multiply_some() {
        const Unit unit(block_rows);
        const Numbers unpacked = numbers(call.bits == 4 ? static_cast<long>(steps) * STEP_BYTES : 0);
        for (long index; (index = next.fetch_add(1)) < column_tasks * row_tasks;) {
            const long first_row = index / column_tasks * TASK_ROW_BLOCKS, first = index % column_tasks * task_columns;
            const long end_row = std::min(first_row + TASK_ROW_BLOCKS, row_blocks);
            const long end = std::min(first + task_columns, column_blocks);
            for (long column = first; column < end; ++column) {
                const void* weights = static_cast<const char*>(call.weights) + column * steps * step_bytes;
                multiply_columns(unit, first_row, end_row, column, weights, unpacked.get());
            }
        }
    }

    // A block of columns. unpacked: room for one in int8, where weights are of 4 bits.
    void multiply_columns(const Unit& unit, long first_row, long end_row, long column, const void* weights,
                          int8_t* unpacked) const {
        if constexpr (Product::has_groups) {
            if (call.bits == 4) {
                const auto* packed = static_cast<const uint8_t*>(weights);
                const Ahead<PACKED_STEP_LINES> ahead{packed + static_cast<long>(steps) * step_bytes};
                unpack_block(packed, steps, unpacked);
                return multiply_all(unit, first_row, end_row, column, unpacked, ahead);
            }
        }
        const auto* plain = static_cast<const int8_t*>(weights);
        multiply_all(unit, first_row, end_row, column, plain, Ahead<STEP_BYTES / LINE>{plain + AHEAD});
    }

    template <int LINES>
    void multiply_all(const Unit& unit, long first_row, long end_row, long column, const int8_t* weights,
                      Ahead<LINES> ahead) const {
        multiply(unit, first_row, column, weights, ahead);
        for (long row = first_row + 1; row < end_row; ++row)
            multiply(unit, row, column, weights, Ahead<0>{});
    }

    template <int LINES>
    void multiply(const Unit& unit, long row_block, long column_block, const int8_t* weights,
                  Ahead<LINES> ahead) const {
        alignas(64) typename Product::Sums sums;
        const Rows rows = block(row_block);
        unit.multiply(rows, weights, ahead, sums);
        const long column = column_block * BLOCK_COLUMNS;
        const long num_columns = std::min<long>(BLOCK_COLUMNS, call.columns - column);
        const long first_row = row_block * block_rows;
        const long num_rows = std::min<long>(block_rows, call.num_rows - first_row);
        for (long row = 0; row < num_rows; ++row) {
            uint16_t* output = call.output + (first_row + row) * call.columns + column;
            uint16_t finished[BLOCK_COLUMNS];
            // Whole blocks are finished by a loop of known length.
            const float *scales = call.scales + column, *biases = call.biases + column;
            if (num_columns == BLOCK_COLUMNS)
                Product::finish(sums, rows.facts[row], row, scales, biases, BLOCK_COLUMNS, finished);
            else
                Product::finish(sums, rows.facts[row], row, scales, biases, num_columns, finished);
            std::memcpy(output, finished, num_columns * sizeof *output);
        }
    }
};
