"""From logits to a token: processors give the law, keyed noise decides, draw puts the two together. numpy only."""
