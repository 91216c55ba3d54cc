"""The slicing core: batches of rows in, slices that all windows share, results out."""
