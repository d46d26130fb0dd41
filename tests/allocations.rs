//! The budgets of the benches, held as a test: one operation asks the allocator for so much and no more.

#[path = "../benches/kit/mod.rs"]
mod kit;

// One test: the allocator counts for the whole process.
#[test]
fn no_operation_exceeds_its_budget_of_allocations() {
    let mut over = kit::over_budget(kit::pure::messages());
    over.extend(kit::over_budget(kit::pure::names()));
    over.extend(kit::over_budget(kit::whole::requests()));
    over.extend(kit::over_budget(kit::whole::lists()));
    assert!(over.is_empty(), "{}", over.join("\n"));
}
