// C = A B for the small matrices of attention: A by rows, B in panels of LANES columns, C in float.
//
// An element is what one multiplication takes along the depth: a float, or a pair of bf16 where the machine
// multiplies those. Each number of C is a sum along the depth in one fixed order, whatever rows stand beside it.
#pragma once

#include <type_traits>

#include "partial.h"

#if defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__linux__)
#define FORERUN_TILES 1
#include <sys/syscall.h>
#include <unistd.h>
#endif

struct Pair {
    uint32_t bits;
};

template <typename Stored>
struct ElementOf {
    typedef float type;
    static constexpr int depth = 1;
};

#if defined(__AVX512BF16__)
template <>
struct ElementOf<Bf16> {
    typedef Pair type;
    static constexpr int depth = 2;
};
#endif

// Numbers in rows (or panels) that begin `stride` apart.
template <typename Number>
struct Rows {
    Number* data;
    int stride;
    Number* operator[](int index) const { return data + static_cast<long>(index) * stride; }
    Rows from(int index) const { return {(*this)[index], stride}; }
};

inline Floats multiply_add(const float* a, const float* b, Floats c) { return fma(all(*a), load(b), c); }

#if defined(__AVX512BF16__)
inline Floats multiply_add(const Pair* a, const Pair* b, Floats c) {
    const __m512i pairs = _mm512_set1_epi32(static_cast<int>(a->bits));
    return (Floats)_mm512_dpbf16_ps((__m512)c, (__m512bh)pairs, load_bits<__m512bh>(b));
}
#endif

// What stays in registers: R rows of two panels.
template <int R, typename Element>
inline void multiply_block(Rows<const Element> a, Rows<const Element> b, Rows<float> c, int depth) {
    Floats sums[R][2];
    for (int row = 0; row < R; ++row)
        for (int panel = 0; panel < 2; ++panel) sums[row][panel] = Floats{};
    for (int k = 0; k < depth; ++k)
        for (int row = 0; row < R; ++row)
            for (int panel = 0; panel < 2; ++panel)
                sums[row][panel] = multiply_add(a[row] + k, b[panel] + k * LANES, sums[row][panel]);
    for (int row = 0; row < R; ++row)
        for (int panel = 0; panel < 2; ++panel) store(c[row] + panel * LANES, sums[row][panel]);
}

template <int R, typename Element>
inline void multiply_strips(Rows<const Element> a, Rows<const Element> b, Rows<float> c, int rows, int depth,
                            int panels) {
    int row = 0;
    for (; row + R <= rows; row += R)
        for (int panel = 0; panel < panels; panel += 2)
            multiply_block<R, Element>(a.from(row), b.from(panel), {c[row] + panel * LANES, c.stride}, depth);
    if constexpr (R > 1) multiply_strips<R - 1, Element>(a.from(row), b, c.from(row), rows - row, depth, panels);
}

#if defined(FORERUN_TILES)

// Whether this process may use the matrix unit; Linux wants to be asked once.
inline bool ask_for_tiles() {
    constexpr int request_permission = 0x1023, tile_data = 18;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

static const bool has_tiles = ask_for_tiles();

// GCC's tile instructions do not say that they read memory: what they are to read is written before this.
inline void written(const void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

// All eight tiles have rows of 64 bytes: 0 … 3 are C, 4 is A, 5 and 6 are B.
struct TileSetting {
    explicit TileSetting(int rows) {
        std::fill(num_rows, num_rows + 5, rows);
        std::fill(num_rows + 5, num_rows + 8, LANES);
    }
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t num_rows[16] = {};
};

template <int P>
inline void multiply_panels(Rows<const Pair> a, Rows<const Pair> b, Rows<float> c, int depth) {
    written(a.data);
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (P == 4) _tile_zero(2);
    if constexpr (P == 4) _tile_zero(3);
    for (int k = 0; k < depth; k += LANES) {
        _tile_loadd(4, a[0] + k, a.stride * sizeof(Pair));
        _tile_loadd(5, b[0] + k * LANES, 64);
        _tile_dpbf16ps(0, 4, 5);
        _tile_loadd(6, b[1] + k * LANES, 64);
        _tile_dpbf16ps(1, 4, 6);
        if constexpr (P == 4) _tile_loadd(5, b[2] + k * LANES, 64);
        if constexpr (P == 4) _tile_dpbf16ps(2, 4, 5);
        if constexpr (P == 4) _tile_loadd(6, b[3] + k * LANES, 64);
        if constexpr (P == 4) _tile_dpbf16ps(3, 4, 6);
    }
    _tile_stored(0, c[0], c.stride * sizeof(float));
    _tile_stored(1, c[0] + LANES, c.stride * sizeof(float));
    if constexpr (P == 4) _tile_stored(2, c[0] + 2 * LANES, c.stride * sizeof(float));
    if constexpr (P == 4) _tile_stored(3, c[0] + 3 * LANES, c.stride * sizeof(float));
}

inline void multiply_tiles(Rows<const Pair> a, Rows<const Pair> b, Rows<float> c, int depth, int panels) {
    int panel = 0;
    for (; panel + 4 <= panels; panel += 4)
        multiply_panels<4>(a, b.from(panel), {c.data + panel * LANES, c.stride}, depth);
    if (panel < panels) multiply_panels<2>(a, b.from(panel), {c.data + panel * LANES, c.stride}, depth);
}

#endif

// Holds the matrix unit, where there is one, for as long as this thread multiplies matrices of at most
// max_rows rows.
class Multiplier {
   public:
#if defined(FORERUN_TILES)
    explicit Multiplier(int max_rows) {
        const TileSetting setting(max_rows);
        written(&setting);
        if (has_tiles) _tile_loadconfig(&setting);
    }
    ~Multiplier() {
        if (has_tiles) _tile_release();
    }
#else
    explicit Multiplier(int) {}
#endif
    Multiplier(const Multiplier&) = delete;

    // C [rows, panels * LANES] = A [rows, depth] B; an even number of panels; A and C have room for TILE_ROWS rows.
    template <typename Element>
    void multiply(Rows<const Element> a, Rows<const Element> b, Rows<float> c, int rows, int depth, int panels) const {
#if defined(FORERUN_TILES)
        if constexpr (std::is_same_v<Element, Pair>)
            if (has_tiles) return multiply_tiles(a, b, c, depth, panels);
#endif
        multiply_strips<LANES == 16 ? 8 : 4, Element>(a, b, c, rows, depth, panels);
    }
};
