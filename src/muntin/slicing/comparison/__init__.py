"""Plans that share nothing between windows: the baselines that slicing is compared with."""
