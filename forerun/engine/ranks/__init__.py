"""One model over several processes: each rank holds a part of every layer and of its cache; rank 0 alone decides."""
