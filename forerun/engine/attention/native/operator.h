// One layer of a compiled graph: its keys and values go into the cache, its queries attend, without Python where the
// step allows.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>

#include "attend.h"

#define FORERUN_TRY(call) \
    if (const AOTITorchError error = (call)) return error

// `[1, heads, rows, head_dim]` anywhere in memory, strides in numbers.
struct View {
    const char* data = nullptr;
    int64_t *sizes = nullptr, *strides = nullptr;
    int64_t bytes = 0;

    AOTITorchError read(AtenTensorHandle tensor) {
        void* pointer;
        int32_t dtype;
        FORERUN_TRY(aoti_torch_get_data_ptr(tensor, &pointer));
        FORERUN_TRY(aoti_torch_get_sizes(tensor, &sizes));
        FORERUN_TRY(aoti_torch_get_strides(tensor, &strides));
        FORERUN_TRY(aoti_torch_get_dtype(tensor, &dtype));
        data = static_cast<const char*>(pointer);
        bytes = dtype == aoti_torch_dtype_bfloat16() ? 2 : dtype == aoti_torch_dtype_float32() ? 4 : 0;
        return AOTI_TORCH_SUCCESS;
    }

    bool lies_by_row() const { return strides[1] == sizes[3] && strides[2] == sizes[1] * sizes[3]; }

    // One row `[heads, head_dim]`.
    void copy_row(int64_t row, char* to) const {
        const int64_t head_bytes = sizes[3] * bytes;
        const char* from = data + row * strides[2] * bytes;
        if (strides[1] == sizes[3])
            std::memcpy(to, from, sizes[1] * head_bytes);
        else
            for (int64_t head = 0; head < sizes[1]; ++head)
                std::memcpy(to + head * head_bytes, from + head * strides[1] * bytes, head_bytes);
    }
};

struct Operator {
    AtenTensorHandle query, key, value, step;
    AtenTensorHandle* sinks;
    AtenTensorHandle* output;
    int64_t layer, window;
    double scale, softcap;

    AOTITorchError run() const {
        void* handle;
        FORERUN_TRY(aoti_torch_get_data_ptr(step, &handle));
        const auto* paged = *static_cast<const PagedStep* const*>(handle);
        View queries, keys, values;
        FORERUN_TRY(queries.read(query));
        FORERUN_TRY(keys.read(key));
        FORERUN_TRY(values.read(value));
        const bool fits = paged->step && fits_cache(queries, *paged) && fits_cache(keys, *paged) &&
                          fits_cache(values, *paged) && keys.sizes[1] == paged->num_kv_heads;
        std::vector<float> sink_logits;
        if (fits && sinks) FORERUN_TRY(read_sinks(sink_logits));
        const bool has_sinks = !sinks || static_cast<int64_t>(sink_logits.size()) == queries.sizes[1];
        return fits && has_sinks ? in_c(*paged, queries, keys, values, sink_logits) : in_python();
    }

   private:
    static bool fits_cache(const View& view, const PagedStep& paged) {
        return view.bytes == paged.bytes && view.sizes[3] == paged.head_dim && view.strides[3] == 1;
    }

    AOTITorchError in_c(const PagedStep& paged, const View& queries, const View& keys, const View& values,
                        const std::vector<float>& sink_logits) const {
        const int64_t num_heads = queries.sizes[1], num_rows = queries.sizes[2], head_dim = queries.sizes[3];
        const int64_t row_bytes = num_heads * head_dim * paged.bytes;
        write(paged, keys, paged.keys[layer]);
        write(paged, values, paged.values[layer]);
        std::vector<char> by_row;
        if (!queries.lies_by_row()) {
            by_row.resize(paged.num_rows * row_bytes);
            for (int64_t row = 0; row < paged.num_rows; ++row) queries.copy_row(row, by_row.data() + row * row_bytes);
        }
        const int64_t sizes[] = {1, num_rows, num_heads, head_dim};
        const int64_t strides[] = {num_rows * num_heads * head_dim, num_heads * head_dim, head_dim, 1};
        const int32_t dtype = paged.bytes == 2 ? aoti_torch_dtype_bfloat16() : aoti_torch_dtype_float32();
        FORERUN_TRY(aoti_torch_empty_strided(4, sizes, strides, dtype, aoti_torch_device_type_cpu(), 0, output));
        void* attended;
        FORERUN_TRY(aoti_torch_get_data_ptr(*output, &attended));
        const Layer call{
            by_row.empty() ? queries.data : by_row.data(),
            attended,
            paged.keys[layer],
            paged.values[layer],
            sinks ? sink_logits.data() : nullptr,
            static_cast<float>(scale),
            static_cast<float>(softcap),
            static_cast<int32_t>(window),
            static_cast<int32_t>(num_heads),
            paged.num_kv_heads,
            paged.head_dim,
        };
        attend(*paged.step, call, paged.bytes);
        // Rows of no sequence are padding, which nobody reads but which other layers compute with.
        std::memset(static_cast<char*>(attended) + paged.num_rows * row_bytes, 0,
                    (num_rows - paged.num_rows) * row_bytes);
        return AOTI_TORCH_SUCCESS;
    }

    static void write(const PagedStep& paged, const View& rows, char* cache) {
        const int64_t row_bytes = static_cast<int64_t>(paged.num_kv_heads) * paged.head_dim * paged.bytes;
        for (int64_t row = 0; row < paged.num_rows; ++row) rows.copy_row(row, cache + paged.slots[row] * row_bytes);
    }

    // Leaves logits empty where they are stored in another way than float32 or bfloat16 side by side.
    AOTITorchError read_sinks(std::vector<float>& logits) const {
        void* data;
        int32_t dtype;
        int64_t count;
        bool is_contiguous;
        FORERUN_TRY(aoti_torch_get_data_ptr(*sinks, &data));
        FORERUN_TRY(aoti_torch_get_dtype(*sinks, &dtype));
        FORERUN_TRY(aoti_torch_get_numel(*sinks, &count));
        FORERUN_TRY(aoti_torch_is_contiguous(*sinks, &is_contiguous));
        const bool is_wide = dtype == aoti_torch_dtype_float32();
        if (!is_contiguous || !(is_wide || dtype == aoti_torch_dtype_bfloat16())) return AOTI_TORCH_SUCCESS;
        for (int64_t head = 0; head < count; ++head) {
            const uint32_t bits = is_wide ? 0 : static_cast<uint32_t>(static_cast<const uint16_t*>(data)[head]) << 16;
            logits.push_back(is_wide ? static_cast<const float*>(data)[head] : as<float>(bits));
        }
        return AOTI_TORCH_SUCCESS;
    }

    // As the dispatcher calls it: what it is given is its own, what it gives is the caller's.
    AOTITorchError in_python() const {
        StableIValue stack[] = {0,
                                0,
                                0,
                                0,
                                as<StableIValue>(layer),
                                as<StableIValue>(scale),
                                as<StableIValue>(window),
                                as<StableIValue>(softcap),
                                0};
        const AtenTensorHandle tensors[] = {query, key, value, step};
        for (int i = 0; i < 4; ++i) FORERUN_TRY(owned(tensors[i], &stack[i]));
        if (sinks) {
            StableIValue* some;
            FORERUN_TRY(new_value(&some));
            FORERUN_TRY(owned(*sinks, some));
            stack[8] = as<StableIValue>(some);
        }
        FORERUN_TRY(aoti_torch_call_dispatcher("forerun::paged_attention", "", stack));
        *output = as<AtenTensorHandle>(stack[0]);
        return AOTI_TORCH_SUCCESS;
    }

    // torch frees it.
    static AOTITorchError new_value(StableIValue** value) {
#if defined(TORCH_VERSION_2_13_0) && TORCH_FEATURE_VERSION >= TORCH_VERSION_2_13_0
        return torch_new_stable_ivalue(value);
#else
        *value = new StableIValue(0);
        return AOTI_TORCH_SUCCESS;
#endif
    }

    static AOTITorchError owned(AtenTensorHandle tensor, StableIValue* value) {
        AtenTensorHandle handle;
        FORERUN_TRY(aoti_torch_new_tensor_handle(tensor, &handle));
        *value = as<StableIValue>(handle);
        return AOTI_TORCH_SUCCESS;
    }
};
