"""What FlashAttention-3's `flash_attn_with_kvcache` and torch's `varlen_attn` promise, in plain float32 on any device.

They read the arguments that the kernels read, and refuse what those refuse (hopper/flash_api.cpp of flash-attention
3.0.0, torch/nn/attention/varlen.py of torch 2.13).
"""

import torch

E4M3 = torch.float8_e4m3fn


def flash_attn_with_kvcache(
    q,
    k_cache,
    v_cache,
    *,
    cache_seqlens,
    page_table,
    cu_seqlens_q,
    max_seqlen_q,
    q_descale=None,
    k_descale=None,
    v_descale=None,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    num_splits=0,
):
    """q `[total_q, H, D]`, caches `[blocks, page, KV, D]`. Rows beyond cu_seqlens_q[-1] come back as garbage."""
    _check_dtypes(q, k_cache, v_cache)
    for numbers in (cache_seqlens, page_table, cu_seqlens_q):
        assert numbers.dtype == torch.int32
        assert numbers.stride(-1) == 1
    assert page_table.shape[0] == len(cu_seqlens_q) - 1 == len(cache_seqlens)
    assert max_seqlen_q >= max(cu_seqlens_q.diff().tolist())
    assert num_splits in (0, 1)
    is_fp8 = q.dtype == E4M3
    shape = (len(cache_seqlens), k_cache.shape[2])
    descales = [one_or(scale, shape, is_fp8) for scale in (q_descale, k_descale, v_descale)]
    output = torch.full(q.shape, float("nan"))
    for i, (table, length) in enumerate(zip(page_table, cache_seqlens.tolist(), strict=True)):
        start, end = cu_seqlens_q[i : i + 2].tolist()
        if start == end:
            continue
        used = table[: -(-length // k_cache.shape[1])].long()
        keys, values = (side[used].float().flatten(0, 1)[:length] for side in (k_cache, v_cache))
        keys, values = keys * descales[1][i][:, None], values * descales[2][i][:, None]
        fold = q.shape[1] // k_cache.shape[2]
        rows = q[start:end].float() * descales[0][i].repeat_interleave(fold)[:, None]
        output[start:end] = attention(rows, keys, values, softmax_scale, causal, window_size, softcap)
    return output.to(torch.bfloat16 if is_fp8 else q.dtype)


def varlen_attn(
    query,
    key,
    value,
    cu_seq_q,
    cu_seq_k,
    max_q,
    max_k,
    *,
    return_aux=None,
    scale=None,
    window_size=(-1, -1),
    enable_gqa=False,
    seqused_k=None,
    block_table=None,
    num_splits=None,
):
    """query `[T_q, H, D]`, key and value packed `[T_k, KV, D]`, or paged with seqused_k and block_table."""
    num_kv_heads = key.shape[2] if block_table is not None else key.shape[1]
    assert enable_gqa or query.shape[1] == num_kv_heads
    assert window_size[1] == 0, "causal, or causal with a window"
    paged = {"softmax_scale": scale, "causal": True, "window_size": window_size, "num_splits": num_splits or 0}
    if block_table is None:
        # Packed keys are pages of one key each.
        assert max_k >= max(cu_seq_k.diff().tolist())
        seqused_k = cu_seq_k.diff()
        block_table = torch.zeros(len(seqused_k), max_k, dtype=torch.int32)
        for i, start in enumerate(cu_seq_k[:-1].tolist()):
            block_table[i, : seqused_k[i]] = torch.arange(start, start + int(seqused_k[i]))
        key, value = key[:, None], value[:, None]
    else:
        assert cu_seq_k is None
    return flash_attn_with_kvcache(
        query, key, value,
        cache_seqlens=seqused_k, page_table=block_table, cu_seqlens_q=cu_seq_q, max_seqlen_q=max_q, **paged,
    )  # fmt: skip


def attention(rows, keys, values, scale, causal, window_size, softcap):
    """rows `[Q, H, D]`, keys and values `[L, KV, D]`: one sequence's, aligned to the bottom right."""
    fold = rows.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(fold, 1), values.repeat_interleave(fold, 1)
    scores = torch.einsum("qhd,lhd->hql", rows, keys) * (scale or rows.shape[-1] ** -0.5)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    places = torch.arange(len(keys))
    positions = torch.arange(len(rows))[:, None] + len(keys) - len(rows)
    hidden = (places > positions) if causal else torch.zeros(len(rows), len(keys), dtype=torch.bool)
    if window_size[0] >= 0:
        hidden |= places < positions - window_size[0]
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    return torch.einsum("hql,lhd->qhd", weights, values)


def one_or(scale, shape, is_fp8):
    """A descale as the kernel takes it, or 1."""
    if scale is None:
        return torch.ones(shape)
    assert is_fp8
    assert scale.shape == shape
    assert scale.dtype == torch.float32
    return scale


def _check_dtypes(q, k_cache, v_cache):
    assert q.dtype in (torch.float32, torch.float16, torch.bfloat16, E4M3), "float32 only here, for tight tolerances"
    assert q.dtype == k_cache.dtype == v_cache.dtype
    assert q.shape[-1] % (16 if q.dtype == E4M3 else 8) == 0
    assert q.stride(-1) == k_cache.stride(-1) == v_cache.stride(-1) == 1
